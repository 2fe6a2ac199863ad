// Package outridertest runs an outbox and its relay inside a unit test: publish in a transaction, and see what was
// delivered. It needs no server, and a test need not sleep.
//
//	func TestOrdersAreAnnounced(t *testing.T) {
//	    kit := outridertest.Start(t)
//	    err := outbox.InTx(t.Context(), kit.DB, func(ctx context.Context, tx *sql.Tx) error {
//	        return PlaceOrder(ctx, tx, kit.Client, "customer-7") // the code under test
//	    })
//	    if err != nil {
//	        t.Fatal(err)
//	    }
//	    if got := kit.Delivered(); len(got) != 1 || got[0].Type() != "order.created" {
//	        t.Errorf("delivered: %v", got)
//	    }
//	}
//
// The outbox is a table in an SQLite file of the test, and the relay is the real one, with its route, its retries and its order per
// group. To run listeners, or middleware, give them to [Start].
package outridertest
