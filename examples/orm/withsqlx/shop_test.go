package withsqlx

import (
	"testing"

	"github.com/jmoiron/sqlx"
	"go.uber.org/goleak"

	"github.com/outriderhq/outrider/outridertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestPlacedOrdersAreDelivered(t *testing.T) {
	t.Parallel()
	kit := outridertest.Start(t)
	if _, err := kit.DB.ExecContext(t.Context(), "CREATE TABLE orders (id INTEGER PRIMARY KEY, customer TEXT, total INTEGER CHECK (total > 0))"); err != nil {
		t.Fatal(err)
	}
	shop := &Shop{DB: sqlx.NewDb(kit.DB, "sqlite3"), Client: kit.Client} // the name says how sqlx writes placeholders
	placed := 0
	if err := shop.Place(t.Context(), Order{Customer: "heron", Total: 12}, func() { placed++ }); err != nil {
		t.Fatal(err)
	}
	if err := shop.Place(t.Context(), Order{Customer: "heron", Total: -1}, func() { placed++ }); err == nil {
		t.Error("an impossible order was placed")
	}
	got := kit.Delivered()
	if len(got) != 1 || string(got[0].Payload()) != `{"ID":1,"Customer":"heron","Total":12}` || placed != 1 {
		t.Errorf("delivered %v, placed %d times", got, placed)
	}
}
