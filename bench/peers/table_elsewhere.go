package peers

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/outriderhq/outrider/bench/measure"

	"github.com/jackc/pgx/v5"
)

// The variables that name further servers, as internal/testenv sets them.
const (
	envMySQL   = "OUTRIDER_TEST_MYSQL_URL"
	envMongoDB = "OUTRIDER_TEST_MONGODB_URL"
)

// itemStore is a server other than PostgreSQL with FlowCatalyst's table of events, in databases with the names of
// the stages' databases. The backlog stays in the stage's database.
type itemStore interface {
	// variable is the name of the environment variable with the server's URL.
	variable() string

	// make makes the database, and drop drops it.
	make(ctx context.Context, name string) error
	drop(ctx context.Context, name string) error

	// table makes the table and the index of FlowCatalyst's document.
	table(ctx context.Context, name string) error

	// fill replaces all items and deletes the state of the relay.
	fill(ctx context.Context, name string, items func(yield func(*item) bool)) error

	// wrong counts items without the values that FlowCatalyst writes after a delivery at the first attempt.
	wrong(ctx context.Context, name string) (int, error)

	// claimer has the statements of FlowCatalyst's document.
	claimer(ctx context.Context, name string) (itemClaimer, error)
}

// item is a row of the backlog.
type item struct {
	id, group, payload string
	created            time.Time
}

// storedItems is FlowCatalyst's table in a store, as a peer or as the table of Outrider.
type storedItems struct{ store itemStore }

// Provide checks that there is a server.
func (s storedItems) Provide(context.Context, *measure.Servers, func(string, ...any)) error {
	if os.Getenv(s.store.variable()) == "" {
		return fmt.Errorf("%s is empty: `make bench` starts the server and sets it", s.store.variable())
	}
	return nil
}

// databaseOf returns the name of a stage's database.
func databaseOf(postgres string) string {
	u, err := url.Parse(postgres)
	if err != nil {
		return ""
	}
	return strings.TrimPrefix(u.Path, "/")
}

func (s storedItems) Clean(ctx context.Context, postgres string) error {
	return s.store.drop(ctx, databaseOf(postgres))
}

func (s storedItems) fill(ctx context.Context, db *pgx.Conn) error {
	if err := measure.KeepEvents(ctx, db); err != nil {
		return err
	}
	return s.refill(ctx, db)
}

// refill writes the backlog as FlowCatalyst's client does, each item a little younger than the one before it.
func (s storedItems) refill(ctx context.Context, db *pgx.Conn) error {
	rows, err := db.Query(ctx, "SELECT lpad(position::text, 13, '0'), message_group, payload::text, position FROM "+measure.ItemBacklog+" ORDER BY position")
	if err != nil {
		return err
	}
	defer rows.Close()
	begin := time.Now().Add(-time.Hour).Truncate(time.Second)
	var failed error
	err = s.store.fill(ctx, db.Config().Database, func(yield func(*item) bool) {
		for rows.Next() {
			var i item
			var position int
			if failed = rows.Scan(&i.id, &i.group, &i.payload, &position); failed != nil {
				return
			}
			i.created = begin.Add(time.Duration(position) * time.Millisecond)
			if !yield(&i) {
				return
			}
		}
	})
	return errors.Join(err, failed, rows.Err())
}

func (s storedItems) Rewind(ctx context.Context, db *pgx.Conn) error {
	_, err := db.Exec(ctx, "DO $$ BEGIN IF to_regclass('outrider_cursor') IS NOT NULL THEN "+forgetState+"; END IF; END $$")
	if err != nil {
		return err
	}
	return s.refill(ctx, db)
}

func (storedItems) Backlog() string {
	return "SELECT message_group, payload::text FROM " + measure.ItemBacklog + " ORDER BY position"
}

// Insert and Empty are not used: all items are written before the run.
func (storedItems) Insert() string { return "" }
func (storedItems) Empty() string  { return "" }

func (s storedItems) Verify(ctx context.Context, db *pgx.Conn) error {
	n, err := s.store.wrong(ctx, db.Config().Database)
	if err == nil && n > 0 {
		err = fmt.Errorf("%d items of outbox_events are not marked as delivered at the first attempt", n)
	}
	return err
}

// storedFloor is [itemFloor] in another database.
type storedFloor struct {
	storedItems
	how string // the claim, for the reader
}

func (storedFloor) Name() string { return "floor" }

func (f storedFloor) About() string {
	return fmt.Sprintf("%s; POSTs of at most %d items of a group on %d connections, and COMPLETED in one statement for all that was answered meanwhile; "+
		"keeps no order and retries nothing", f.how, ItemRequest, itemRequests)
}

func (storedFloor) Disorderly() {}

func (f storedFloor) Create(ctx context.Context, db *pgx.Conn) error {
	name := db.Config().Database
	if err := f.store.make(ctx, name); err != nil {
		return err
	}
	if err := f.store.table(ctx, name); err != nil {
		return err
	}
	return f.fill(ctx, db)
}

func (f storedFloor) Relay(ctx context.Context, j measure.Job) error {
	return moveItems(ctx, j.URL+ItemPath, func(ctx context.Context) (itemClaimer, error) {
		return f.store.claimer(ctx, databaseOf(j.Postgres))
	})
}

// storedRelay is Outrider with FlowCatalyst's table in another database.
type storedRelay struct {
	Outrider
	storedItems
}

func (r storedRelay) Create(ctx context.Context, db *pgx.Conn) error {
	if err := r.store.make(ctx, db.Config().Database); err != nil {
		return err
	}
	return r.Outrider.Create(ctx, db)
}

// Both embedded types have these methods: those of the relay count.
func (r storedRelay) Rewind(ctx context.Context, db *pgx.Conn) error {
	return r.Outrider.Rewind(ctx, db)
}
func (r storedRelay) Backlog() string { return r.Outrider.Backlog() }
func (r storedRelay) Empty() string   { return r.Outrider.Empty() }
func (r storedRelay) Verify(ctx context.Context, db *pgx.Conn) error {
	return r.Outrider.Verify(ctx, db)
}

// relayTo returns Outrider with a source in a store; more has further lines of the configuration.
func relayTo(store itemStore, source, more, about string) storedRelay {
	items := storedItems{store}
	return storedRelay{Outrider{
		label:    OutriderName,
		Settings: "package outrider, " + about + ", " + strings.TrimPrefix(FastItems.Settings, "package outrider, "),
		Config:   strings.Replace(FastItems.Config, "type: postgres, url: {postgres}", source, 1) + more,
		table:    items,
	}, items}
}
