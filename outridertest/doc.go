// Package outridertest runs an outbox and its relay in a unit test: publish in a transaction, and check the
// delivered messages. It needs no server, and tests need not sleep.
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
// The outbox is a table in an SQLite file of the test, and the relay is the real one, with a route, retries and order per group.
// Pass listeners or middleware to [Start].
package outridertest
