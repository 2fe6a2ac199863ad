package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// The variables that name further servers, as internal/testenv sets them.
const (
	envMySQL   = "OUTRIDER_TEST_MYSQL_URL"
	envMongoDB = "OUTRIDER_TEST_MONGODB_URL"
)

// itemStore is a server other than PostgreSQL with FlowCatalyst's table of events in databases that have the names of
// the stages' databases. The stage keeps what the table is filled with, and what it says is expected.
type itemStore interface {
	// variable names the environment's variable with the server's URL.
	variable() string

	// make makes the database, and drop drops it.
	make(ctx context.Context, name string) error
	drop(ctx context.Context, name string) error

	// table makes the table and the index of FlowCatalyst's document.
	table(ctx context.Context, name string) error

	// fill replaces all items, and forgets the state of a relay.
	fill(ctx context.Context, name string, items func(yield func(*item) bool)) error

	// wrong counts items that are not as the original leaves them when they are delivered at the first attempt.
	wrong(ctx context.Context, name string) (int, error)

	// claimer has the statements of FlowCatalyst's document.
	claimer(ctx context.Context, name string) (itemClaimer, error)
}

// item is one of the backlog.
type item struct {
	id, group, payload string
	created            time.Time
}

// storedItems is FlowCatalyst's table in a store, as a peer or as the table of Outrider.
type storedItems struct{ store itemStore }

// provide asks whether there is a server.
func (s storedItems) provide(context.Context, *servers, func(string, ...any)) error {
	if os.Getenv(s.store.variable()) == "" {
		return fmt.Errorf("%s is empty: `make bench` starts the server and sets it", s.store.variable())
	}
	return nil
}

// databaseOf is the name of a stage's database.
func databaseOf(postgres string) string {
	u, err := url.Parse(postgres)
	if err != nil {
		return ""
	}
	return strings.TrimPrefix(u.Path, "/")
}

func (s storedItems) clean(ctx context.Context, postgres string) error {
	return s.store.drop(ctx, databaseOf(postgres))
}

func (s storedItems) fill(ctx context.Context, db *pgx.Conn) error {
	if err := keepEvents(ctx, db); err != nil {
		return err
	}
	return s.refill(ctx, db)
}

// refill writes the backlog as FlowCatalyst's client does, each item a little younger than the one before it.
func (s storedItems) refill(ctx context.Context, db *pgx.Conn) error {
	rows, err := db.Query(ctx, "SELECT lpad(position::text, 13, '0'), message_group, payload::text, position FROM "+itemBacklog+" ORDER BY position")
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

func (s storedItems) rewind(ctx context.Context, db *pgx.Conn) error {
	_, err := db.Exec(ctx, "DO $$ BEGIN IF to_regclass('outrider_cursor') IS NOT NULL THEN "+forgetState+"; END IF; END $$")
	if err != nil {
		return err
	}
	return s.refill(ctx, db)
}

func (storedItems) backlog() string {
	return "SELECT message_group, payload::text FROM " + itemBacklog + " ORDER BY position"
}

// insert and empty have no use: these items are all there before.
func (storedItems) insert() string { return "" }
func (storedItems) empty() string  { return "" }

func (s storedItems) verify(ctx context.Context, db *pgx.Conn) error {
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

func (storedFloor) name() string { return "floor" }

func (f storedFloor) about() string {
	return fmt.Sprintf("%s; POSTs of at most %d items of a group on %d connections, and COMPLETED in one statement for all that was answered meanwhile; "+
		"keeps no order and retries nothing", f.how, itemRequest, itemRequests)
}

func (storedFloor) disorderly() {}

func (f storedFloor) create(ctx context.Context, db *pgx.Conn) error {
	name := db.Config().Database
	if err := f.store.make(ctx, name); err != nil {
		return err
	}
	if err := f.store.table(ctx, name); err != nil {
		return err
	}
	return f.fill(ctx, db)
}

func (f storedFloor) relay(ctx context.Context, j job) error {
	return moveItems(ctx, j.URL+itemPath, func(ctx context.Context) (itemClaimer, error) {
		return f.store.claimer(ctx, databaseOf(j.Postgres))
	})
}

// storedRelay is Outrider with FlowCatalyst's table in another database.
type storedRelay struct {
	embedded
	storedItems
}

func (r storedRelay) create(ctx context.Context, db *pgx.Conn) error {
	if err := r.store.make(ctx, db.Config().Database); err != nil {
		return err
	}
	return r.embedded.create(ctx, db)
}

// rewind, backlog and empty are those of the embedded relay.
func (r storedRelay) rewind(ctx context.Context, db *pgx.Conn) error {
	return r.embedded.rewind(ctx, db)
}
func (r storedRelay) backlog() string { return r.embedded.backlog() }
func (r storedRelay) empty() string   { return r.embedded.empty() }
func (r storedRelay) verify(ctx context.Context, db *pgx.Conn) error {
	return r.embedded.verify(ctx, db)
}

// relayTo is Outrider with a source in a store; more are further lines of the configuration.
func relayTo(store itemStore, source, more, about string) storedRelay {
	items := storedItems{store}
	return storedRelay{embedded{
		label:    outriderName,
		settings: "package outrider, " + about + ", " + strings.TrimPrefix(fastItems.settings, "package outrider, "),
		config:   strings.Replace(fastItems.config, "type: postgres, url: {postgres}", source, 1) + more,
		table:    items,
	}, items}
}
