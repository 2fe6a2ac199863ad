package withgorm

import (
	"testing"

	"go.uber.org/goleak"
	postgresdriver "gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/outriderhq/outrider/adapters/postgres/owntable"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestOrderAndEventAreCommittedTogether(t *testing.T) {
	t.Parallel()
	db, err := gorm.Open(postgresdriver.Open(testenv.Postgres(t)), &gorm.Config{Logger: logger.Discard})
	must(t, err)
	pool, err := db.DB()
	must(t, err)
	t.Cleanup(func() { must(t, pool.Close()) })
	for _, statements := range []string{
		owntable.InitSQL(""), // as `outrider init` runs it
		"CREATE TABLE orders (id serial PRIMARY KEY, customer text, total int CHECK (total > 0))",
	} {
		must(t, db.Exec(statements).Error)
	}
	client, err := outbox.NewClient(outbox.ClientConfig{})
	must(t, err)
	shop := &Shop{DB: db, Client: client}

	placed := 0
	must(t, shop.Place(t.Context(), Order{Customer: "heron", Total: 12}, func() { placed++ }))
	must(t, shop.PlaceWithGORM(t.Context(), Order{Customer: "heron", Total: 13}))
	if shop.Place(t.Context(), Order{Customer: "heron", Total: -1}, func() { placed++ }) == nil ||
		shop.PlaceWithGORM(t.Context(), Order{Customer: "heron", Total: -1}) == nil {
		t.Error("impossible orders were placed")
	}
	var got string
	must(t, db.Raw(`SELECT string_agg(concat_ws(' ', o.type, o.message_group, o.payload), '; ' ORDER BY o.position)
		FROM outrider_outbox o JOIN orders ON orders.id = o.aggregate_id::int`).Scan(&got).Error)
	if want := `order.placed heron {"ID":1,"Customer":"heron","Total":12}; order.placed heron {"ID":2,"Customer":"heron","Total":13}`; got != want || placed != 1 {
		t.Errorf("got %s, want %s; placed %d times, want 1", got, want, placed)
	}
}
