package owntable

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pgtest"
	"github.com/outriderhq/outrider/internal/testenv"
)

const hotInsert = "INSERT INTO outrider_outbox (type, message_group, payload) SELECT 't', $1, '{}' FROM generate_series(1, $2::int)"

// hotReader reads all slots, and remembers which read took a row.
type hotReader struct {
	src     *Source
	mu      sync.Mutex
	reads   int
	cursors [adapters.Slots]adapters.Cursor
	as      [adapters.Slots]int // number of the read that a slot's cursor is from
	took    map[int64]int
	rows    map[int64]*adapters.Row
}

func newHotReader(t *testing.T, src *Source) *hotReader {
	t.Helper()
	h := &hotReader{src: src, took: map[int64]int{}, rows: map[int64]*adapters.Row{}}
	start, err := src.Start(t.Context(), adapters.Start{Kind: adapters.StartBeginning})
	pgtest.Must(t, err)
	for i := range h.cursors {
		h.cursors[i] = start
	}
	h.read(t)
	return h
}

// read reads everything that is visible.
func (h *hotReader) read(t *testing.T) {
	t.Helper()
	for slot := range adapters.Slots {
		from := h.cursors[slot]
		for drained := false; !drained; {
			h.mu.Lock()
			h.reads++
			n := h.reads
			h.mu.Unlock()
			got, err := h.src.Fetch(t.Context(), []adapters.Read{{Slot: slot, From: from, Limit: 1000}}, func(_ int, row *adapters.Row) bool {
				h.mu.Lock()
				defer h.mu.Unlock()
				h.took[row.Position], h.rows[row.Position] = n, row
				return true
			})
			pgtest.Must(t, err)
			if from, drained = got[0].Next, got[0].Drained; drained {
				h.mu.Lock()
				h.cursors[slot], h.as[slot] = from, n
				h.mu.Unlock()
			}
		}
	}
}

// hotRowsOf runs an INSERT as the hot path does.
func hotRowsOf(ctx context.Context, src *Source, tx pgx.Tx, insert string, args ...any) (rows []adapters.HotLogRow, slots []int, err error) {
	in := src.Announce(insert)
	found, err := tx.Query(ctx, in.Statement(), args...)
	if err != nil {
		return nil, nil, err
	}
	defer found.Close()
	for found.Next() {
		columns := make([]*string, len(found.FieldDescriptions()))
		to := make([]any, len(columns))
		for i := range to {
			to[i] = &columns[i]
		}
		if err := found.Scan(to...); err != nil {
			return nil, nil, err
		}
		row, slot, ok := in.Inserted(columns)
		slots = append(slots, slot)
		if ok {
			rows = append(rows, row)
		}
	}
	return rows, slots, found.Err()
}

// hotCommitted is hotRowsOf in a transaction that commits.
func (e *sourceEnv) hotCommitted(insert string, args ...any) (rows []adapters.HotLogRow, slots []int) {
	e.T.Helper()
	pgtest.Must(e.T, pgx.BeginFunc(e.Ctx, e.Pool, func(tx pgx.Tx) (err error) {
		rows, slots, err = hotRowsOf(e.Ctx, e.src, tx, insert, args...)
		return err
	}))
	return rows, slots
}

// What comes from memory is what a read makes of the row. What a message cannot carry, or what is not certain to become visible, is left to the read.
func TestHotRowsAreAsReadOnes(t *testing.T) {
	t.Parallel()
	e := newSourceEnv(t)
	h := newHotReader(t, e.src)
	const into = "INSERT INTO outrider_outbox "
	for _, values := range []string{
		`(id, type, message_group, aggregate_type, aggregate_id, tenant_id, tags, headers, payload, occurred_at, created_at) VALUES
			('a', 't', 'g', 'Order', '7', 'acme', '{"a": "1"}', '{"h": "ü \" \\ , x"}', '{"b":  1,` + "\n" + ` "a": "\u00e9"}', '2024-02-29 23:59:59.123456+02', '1999-12-31 00:00:00+00')`,
		`(type, payload_bytes) VALUES ('t', '\x00ff0a5c')`,
		`(id, type, message_group, tags, headers, payload, occurred_at) VALUES ('c', 't', '', '{}', '{ }', 'null', '1969-12-31 23:59:59.999999+00')`,
		`(type, message_group, payload_bytes) VALUES ('t', 'g', '')`,
		`(type, message_group, payload) VALUES ('t', 'g', '"x, y"'), ('u', 'h', '1')`,
	} {
		rows, slots := e.hotCommitted(into + values)
		if len(rows) != len(slots) || len(rows) == 0 {
			t.Errorf("%s: %d of %d rows may be delivered from memory", values, len(rows), len(slots))
		}
		h.read(t)
		for _, row := range rows {
			want := *h.rows[row.Position]
			want.Page, want.Late = nil, false
			if !reflect.DeepEqual(*row.Row, want) {
				t.Errorf("from memory:\n%+v, from the table:\n%+v", *row.Row, want)
			}
		}
	}
	for _, values := range []string{
		`(type, message_group, payload, headers) VALUES ('t', 'g', '{}', '[1]')`,
		`(type, message_group, payload, occurred_at) VALUES ('t', 'g', '{}', 'infinity')`,
		`(type, message_group, payload, created_at) VALUES ('t', 'g', '{}', '294276-12-31 00:00:00+00')`,
		`(type, message_group, payload, created_at) VALUES ('t', 'g', '{}', '4713-01-01 00:00:00+00 BC')`,
	} {
		if rows, slots := e.hotCommitted(into + values); len(rows) != 0 || len(slots) != 1 {
			t.Errorf("%s: %d of %d rows may be delivered from memory, want none", values, len(rows), len(slots))
		}
	}

	e.Exec("CREATE TABLE elsewhere (LIKE outrider_outbox INCLUDING ALL)")
	if rows, slots := e.hotCommitted("INSERT INTO elsewhere (type, message_group, payload) VALUES ('t', 'g', '{}')"); len(rows) != 0 || len(slots) != 1 {
		t.Errorf("%d of %d rows of another table, want none", len(rows), len(slots))
	}
	for name, isolation := range map[string]pgx.TxIsoLevel{"repeatable read": pgx.RepeatableRead, "serializable": pgx.Serializable} {
		tx, err := e.Pool.BeginTx(e.Ctx, pgx.TxOptions{IsoLevel: isolation})
		pgtest.Must(t, err)
		if rows, slots, err := hotRowsOf(e.Ctx, e.src, tx, hotInsert, "g", 1); err != nil || len(rows) != 0 || len(slots) != 1 {
			t.Errorf("%s: %d of %d rows, %v; want none", name, len(rows), len(slots), err)
		}
		pgtest.Must(t, tx.Rollback(e.Ctx))
	}
	tx, err := e.Pool.Begin(e.Ctx)
	pgtest.Must(t, err)
	inner, err := tx.Begin(e.Ctx)
	pgtest.Must(t, err)
	if rows, slots, err := hotRowsOf(e.Ctx, e.src, inner, hotInsert, "g", 1); err != nil || len(rows) != 0 || len(slots) != 1 {
		t.Errorf("in a savepoint: %d of %d rows, %v; want none", len(rows), len(slots), err)
	}
	pgtest.Must(t, tx.Rollback(e.Ctx))
}

// When a row follows what was read up to a cursor: the cases one by one.
func TestG2_AHotRowFollowsWhatWasRead(t *testing.T) {
	t.Parallel()
	e := newSourceEnv(t)
	h := newHotReader(t, e.src)
	nothing := func(int64) bool { return false }
	// A row that could follow does so at one of some tries: between a read and an INSERT a transaction of another test may end, of which the look
	// does not say what it wrote.
	check := func(what string, want bool, known func(int64) bool) {
		t.Helper()
		for try := 1; ; try++ {
			rows, _ := e.hotCommitted(hotInsert, "g", 1)
			switch got := rows[0].Follows(h.cursors[rows[0].Slot], known); {
			case got == want:
				return
			case !want || try == 50:
				t.Errorf("%s: follows is %v, want %v", what, got, want)
				return
			}
			h.read(t)
		}
	}
	check("the first row", true, nothing)
	check("behind one that was not read", false, nothing)
	h.read(t)
	check("everything was read", true, nothing)
	h.read(t)
	var unread []int64
	for range 2 {
		rows, _ := e.hotCommitted(hotInsert, "g", 1)
		unread = append(unread, rows[0].Position)
	}
	check("behind two that are known", true, func(p int64) bool { return slices.Contains(unread, p) })
	h.read(t)
	rows, _ := e.hotCommitted(hotInsert, "g", 2)
	if c := h.cursors[rows[0].Slot]; !rows[0].Follows(c, nothing) || rows[1].Follows(c, nothing) ||
		!rows[1].Follows(c, func(p int64) bool { return p == rows[0].Position }) {
		t.Error("of two rows of one statement the second follows the first, and only that")
	}

	open, err := e.Pool.Begin(e.Ctx)
	pgtest.Must(t, err)
	defer func() { _ = open.Rollback(e.Ctx) }() // it was committed
	_, err = open.Exec(e.Ctx, "SELECT pg_current_xact_id()")
	pgtest.Must(t, err)
	e.hotCommitted(hotInsert, "g", 2*hotLook) // the look will not come to what open writes
	h.read(t)
	check("beside a transaction that is open and has written nothing", true, nothing)
	insert(t, open, "g", "late")
	h.read(t)
	check("beside an open transaction", true, nothing)
	h.read(t)
	pgtest.Must(t, open.Commit(e.Ctx))
	check("behind a late row beyond the look", false, nothing)
	h.read(t)
	check("the late row was read", true, nothing)

	h.read(t)
	tx, err := e.Pool.Begin(e.Ctx)
	pgtest.Must(t, err)
	defer func() { _ = tx.Rollback(e.Ctx) }() // it was committed
	mine, _, err := hotRowsOf(e.Ctx, e.src, tx, hotInsert, "g", 2*hotLook)
	pgtest.Must(t, err)
	last, _, err := hotRowsOf(e.Ctx, e.src, tx, hotInsert, "g", 1)
	pgtest.Must(t, err)
	pgtest.Must(t, tx.Commit(e.Ctx))
	c, at := h.cursors[mine[0].Slot], mine[0].Position+int64(hotLook)
	if last[0].Follows(c, func(p int64) bool { return p >= at }) {
		t.Error("the row follows rows of its own transaction that the look did not come to")
	}
}

// Whatever writers and readers do, a row that follows a cursor has nothing of its group before it that the reads up to this cursor have not brought.
func TestG2_HotRowsFollowUnderStress(t *testing.T) {
	t.Parallel()
	e := newSourceEnv(t)
	h := newHotReader(t, e.src)
	type claim struct {
		group    string
		position int64
		read     int     // up to which everything was taken
		known    []int64 // claimed before, in its transaction
	}
	var mu sync.Mutex
	var claims []claim
	all := 0
	var writers sync.WaitGroup
	for w := range 8 {
		r := rand.New(rand.NewPCG(uint64(w), 5))
		writers.Go(func() {
			for range testenv.Size(150, 2000) {
				group := fmt.Sprint("g", r.IntN(20))
				var rows []adapters.HotLogRow
				tx, err := e.Pool.Begin(e.Ctx)
				if err == nil {
					if r.IntN(3) == 0 {
						_, err = tx.Exec(e.Ctx, "SELECT pg_current_xact_id()")
						time.Sleep(time.Duration(r.IntN(20)) * time.Millisecond)
					}
				}
				if err == nil {
					_, err = tx.Exec(e.Ctx, "SELECT pg_advisory_xact_lock(hashtext($1))", group)
				}
				for range 1 + r.IntN(2) {
					if err == nil {
						var more []adapters.HotLogRow
						more, _, err = hotRowsOf(e.Ctx, e.src, tx, hotInsert, group, 1+r.IntN(3))
						rows = append(rows, more...)
					}
				}
				if err == nil && r.IntN(8) == 0 {
					err = tx.Rollback(e.Ctx)
					rows = nil
				} else if err == nil {
					time.Sleep(time.Duration(r.IntN(5)) * time.Millisecond)
					err = tx.Commit(e.Ctx)
				}
				if err != nil {
					t.Error(err)
					return
				}
				var taken []int64
				for _, row := range rows {
					h.mu.Lock()
					c, as := h.cursors[row.Slot], h.as[row.Slot]
					follows := h.took[row.Position] == 0 && row.Follows(c, func(p int64) bool { return slices.Contains(taken, p) })
					h.mu.Unlock()
					mu.Lock()
					all++
					if follows {
						claims = append(claims, claim{group, row.Position, as, slices.Clone(taken)})
						taken = append(taken, row.Position)
					}
					mu.Unlock()
				}
			}
		})
	}
	ended := make(chan struct{})
	go func() { writers.Wait(); close(ended) }()
	for over := false; !over; {
		over = pgtest.Ended(ended)
		h.read(t)
	}
	byGroup := map[string][]int64{}
	for position, row := range h.rows {
		byGroup[row.Group] = append(byGroup[row.Group], position)
	}
	for _, c := range claims {
		for _, before := range byGroup[c.group] {
			if before < c.position && h.took[before] > c.read && !slices.Contains(c.known, before) {
				t.Errorf("position %d of %s follows read %d, which had not taken %d", c.position, c.group, c.read, before)
			}
		}
	}
	if t.Logf("%d of %d rows followed", len(claims), all); len(claims) == 0 {
		t.Error("the test has shown nothing")
	}
}

// The look of an INSERT costs the same with many rows in the slot and whatever the statistics say, in a session with settings of its own.
func TestG8_TheLookOfAHotInsertIsFlat(t *testing.T) {
	t.Parallel()
	e := newSourceEnv(t)
	e.Exec("ALTER TABLE outrider_outbox SET (autovacuum_enabled = off)")
	e.Exec("ANALYZE outrider_outbox")
	newHotReader(t, e.src)
	look := func(state string) {
		t.Helper()
		tx, err := e.Pool.Begin(e.Ctx)
		pgtest.Must(t, err)
		defer func() { _ = tx.Rollback(e.Ctx) }()
		for range 2 {
			var text []byte
			pgtest.Must(t, tx.QueryRow(e.Ctx, "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+e.src.Announce(hotInsert).Statement(), "g-7", 1).Scan(&text))
			var explained []struct {
				Plan pgtest.PlanNode `json:"Plan"`
			}
			pgtest.Must(t, json.Unmarshal(text, &explained))
			buffers := explained[0].Plan.Hit + explained[0].Plan.Read
			if t.Logf("%s: %d buffers", state, buffers); buffers > 80 {
				t.Errorf("%s: an INSERT visits %d buffers", state, buffers)
			}
		}
	}
	look("an empty table")
	rows := testenv.Size(pgtest.VariantRows, pgtest.PlanRows)
	e.Exec(`INSERT INTO outrider_outbox (xid, type, message_group, payload)
		SELECT `+pgtest.ImitatedXID+`::text::xid8, 't', 'g-7', '{}' FROM generate_series(1, $1::bigint) AS i`, rows)
	look("statistics of the empty table")
	e.Exec("ANALYZE outrider_outbox")
	look("fresh statistics")
}
