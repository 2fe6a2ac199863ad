package logtable

import (
	"fmt"
	"slices"
	"testing"

	wmsql "github.com/ThreeDotsLabs/watermill-sql/v3/pkg/sql"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pgtest"
)

// ackedBy writes what the stock Subscriber does after a batch: it has acknowledged
// the last of rows by (transaction, offset).
func (e *logEnv) ackedBy(group string, rows int) {
	e.T.Helper()
	adapter := wmsql.DefaultPostgreSQLOffsetsAdapter{}
	for _, q := range append(adapter.SchemaInitializingQueries("orders"), adapter.BeforeSubscribingQueries("orders", group)...) {
		e.Exec(q.Query, q.Args...)
	}
	if rows > 0 {
		e.Exec(`UPDATE watermill_offsets_orders SET (offset_acked, last_processed_transaction_id) =
			(SELECT "offset", transaction_id FROM watermill_orders ORDER BY transaction_id, "offset" LIMIT 1 OFFSET $2)
			WHERE consumer_group = $1`, group, rows-1)
	}
}

// TestG1_OffsetsOfWatermillBecomeACursor has the Subscriber stop at each row of a table
// in which transactions interleave, with one that commits afterwards: no row that it has not
// acknowledged is missing, and of those it has only what shares the last
// transaction comes again.
func TestG1_OffsetsOfWatermillBecomeACursor(t *testing.T) {
	t.Parallel()
	e := newLogEnv(t, "watermill")
	begin := func() func(payload string) {
		tx, err := e.Pool.Begin(e.Ctx)
		pgtest.Must(t, err)
		return func(payload string) {
			if payload == "" {
				pgtest.Must(t, tx.Commit(e.Ctx))
				return
			}
			_, err := tx.Exec(e.Ctx, e.insert, "c1", `"`+payload+`"`)
			pgtest.Must(t, err)
		}
	}
	a, b, late := begin(), begin(), begin()
	a("a1")
	b("b1")
	a("a2")
	b("b2")
	a("a3")
	a("")
	b("")
	late("late") // its number is below those of c, and of the Subscriber's last one
	c := begin()
	c("c1")
	c("c2")
	order := []string{"a1", "a2", "a3", "b1", "b2"} // in which the Subscriber reads; the rest is not visible
	for n := range len(order) + 1 {
		e.ackedBy(fmt.Sprint("g", n), n)
	}
	late("")
	c("")
	for n := range len(order) + 1 {
		src := e.opened(func(cfg *Config) { cfg.Group = fmt.Sprint("g", n) })
		got := e.Lanes(src, adapters.StartOffsets, 3).Drain(t)
		again := 0
		for _, p := range []string{"a1", "a2", "a3", "b1", "b2", "late", "c1", "c2"} {
			i := slices.Index(order, p)
			seen := slices.Contains(got, p) || slices.Contains(got, `"`+p+`"`)
			switch {
			case !seen && (i < 0 || i >= n):
				t.Errorf("after %d acknowledged: %s is lost; read: %q", n, p, got)
			case seen && i >= 0 && i < n:
				again++
				if p[0] != order[n-1][0] {
					t.Errorf("after %d acknowledged: %s comes again, which is of an earlier transaction", n, p)
				}
			}
		}
		if (n == 0 || n == 3 || n == 5) && again > 0 {
			t.Errorf("after %d acknowledged, which ends a transaction, %d rows come again", n, again)
		}
	}
}

func TestAnUnknownConsumerGroupIsNamed(t *testing.T) {
	t.Parallel()
	e := newLogEnv(t, "watermill")
	e.ackedBy("known", 0)
	_, err := e.opened(func(cfg *Config) { cfg.Group = "unknown" }).Start(e.Ctx, adapters.Start{Kind: adapters.StartOffsets})
	pgtest.WantError(t, err, "unknown", "consumer_group")
}

// opened is a source with a changed configuration.
func (e *logEnv) opened(change func(*Config)) *Source {
	cfg := e.cfg
	change(&e.cfg)
	defer func() { e.cfg = cfg }()
	return e.open()
}
