package queuetable

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pgtest"
)

// TestG2_ARowThatSomebodyIsAtEndsThePrefix: rows are claimed without locking them
// first while somebody else is at the fifth one, until long after the claim or until
// it waits for him. What is before that row in its group is claimed, and all of the
// other group; the rest later.
func TestG2_ARowThatSomebodyIsAtEndsThePrefix(t *testing.T) {
	t.Parallel()
	const rows, first = 40, 5 // rows of two groups, and the one that somebody is at
	for name, c := range map[string]struct {
		statement string
		waited    bool // his transaction ends while the claim waits for it
	}{
		"written, and waited for": {"UPDATE {t} t SET {set_type} = 'X' WHERE {key} = $1", true},
		"claimed, and waited for": {"UPDATE {t} t SET {set_status} = 'PROCESSING', {set_claimed} = now() WHERE {key} = $1", true},
		"deleted, and waited for": {"DELETE FROM {t} t WHERE {key} = $1", true},
		"written for long":        {"UPDATE {t} t SET {set_type} = 'X' WHERE {key} = $1", false},
		"locked for long":         {"SELECT FROM {t} t WHERE {key} = $1 FOR UPDATE", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newQueueEnv(t).flowCatalyst(t, true)
			table := e.tables[0].Name
			e.fill(table, rows, 2, "PENDING")
			other := e.begin(t)
			_, err := other.Exec(e.ctx, e.sql(table, c.statement), fmt.Sprintf("%013d", first))
			pgtest.Must(t, err)
			ended := make(chan error, 1)
			end := func() { ended <- other.Commit(e.ctx) }
			seen := &watcher{}
			if c.waited {
				seen.meddler = meddler{t: t, all: true, before: func() { time.AfterFunc(5*time.Millisecond, end) }}
			}
			q, err := New(e.ctx, Config{URL: e.url, Tables: e.tables[:1], Layout: e.layout, Tracer: seen})
			pgtest.Must(t, err)
			defer func() { pgtest.Must(t, q.Close()) }()
			q.takeAllRows = 1
			got, err := q.Claim(e.ctx, adapters.ClaimRequest{Slots: slots(), Limit: rows})
			pgtest.Must(t, err)
			if !c.waited {
				end()
			}
			pgtest.Must(t, <-ended)
			checkPrefix(t, got, first, rows)
			if tries := seen.count("RETURNING w.n"); tries != 1 || q.tables[0].contended != takeAllRest {
				t.Errorf("it was tried %d times to get all rows, and %d claims are made row by row", tries, q.tables[0].contended)
			}
			e.exec(e.sql(table, "UPDATE {t} t SET {set_status} = 'PENDING' WHERE {key} = $1"), fmt.Sprintf("%013d", first)) // should he have claimed it
			all := slices.Concat(got, claimAll(t, q))
			want := rows
			if strings.HasPrefix(c.statement, "DELETE") {
				want--
			}
			if lost := settleAll(t, q, all); lost != "" || len(all) != want {
				t.Errorf("%d rows were claimed, %q were lost", len(all), lost)
			}
			if tries := seen.count("RETURNING w.n"); tries != 1 {
				t.Errorf("it was tried %d times to get all rows", tries)
			}
		})
	}
}

// checkPrefix checks that nothing of the first one's group was claimed from it on,
// and all of the other group, in order.
func checkPrefix(t *testing.T, got []*adapters.Row, first, rows int) {
	t.Helper()
	last, other := map[string]string{}, 0
	for _, row := range got {
		if row.ID <= last[row.Group] {
			t.Errorf("row %s came after %s", row.ID, last[row.Group])
		}
		last[row.Group] = row.ID
		switch n := number(t, row); {
		case n%2 != first%2:
			other++
		case n >= first:
			t.Errorf("row %d was claimed, behind row %d that is another's", n, first)
		}
	}
	if other != rows/2 {
		t.Errorf("%d of %d rows of the other group were claimed", other, rows/2)
	}
}

// TestG2_ManyRowsAreTakenAtOnce: where nobody else is at the rows, a claim of many
// is one statement, without locks, and a claim of few is without a transaction of its own.
func TestG2_ManyRowsAreTakenAtOnce(t *testing.T) {
	t.Parallel()
	e := newQueueEnv(t).flowCatalyst(t, true)
	e.fill(e.tables[0].Name, takeAllRows+takeAllRows-1, 10, "PENDING")
	var seen recorder
	q, err := New(e.ctx, Config{URL: e.url, Tables: e.tables[:1], Layout: e.layout, Tracer: &seen})
	pgtest.Must(t, err)
	defer func() { pgtest.Must(t, q.Close()) }()
	for _, want := range []struct{ rows, all, free int }{{takeAllRows, 1, 0}, {takeAllRows - 1, 0, 1}} {
		seen.statements = nil
		got, err := q.Claim(e.ctx, adapters.ClaimRequest{Slots: slots(), Limit: takeAllRows})
		pgtest.Must(t, err)
		if all, free := seen.count("RETURNING w.n"), seen.count("SKIP LOCKED"); len(got) != want.rows || all != want.all || free != want.free {
			t.Errorf("%d rows by %d statements for all and %d for what is free, want %+v", len(got), all, free, want)
		}
	}
}

// watcher notes statements, and meddles with a claim.
type watcher struct {
	recorder
	meddler meddler
}

func (w *watcher) TraceQueryStart(ctx context.Context, conn *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	return w.recorder.TraceQueryStart(w.meddler.TraceQueryStart(ctx, conn, d), conn, d)
}

// count tells how many statements had a text in them.
func (r *recorder) count(text string) (n int) {
	for _, s := range r.statements {
		if strings.Contains(s.sql, text) {
			n++
		}
	}
	return n
}

// number is the number in a row's key.
func number(t *testing.T, row *adapters.Row) int {
	t.Helper()
	n, err := strconv.Atoi(row.ID)
	pgtest.Must(t, err)
	return n
}
