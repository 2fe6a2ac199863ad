package logtable

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pgtest"
	"github.com/outriderhq/outrider/adapters/postgres/owntable"
)

// What moves of cursors change is counted alike in a table with slots and in one
// without.
func TestMovesAreCounted(t *testing.T) {
	t.Parallel()
	e := pgtest.New(t)
	_, err := owntable.Init(e.Ctx, e.Pool, "")
	pgtest.Must(t, err)
	src, err := owntable.New(e.Ctx, owntable.Config{URL: e.URL})
	pgtest.Must(t, err)
	t.Cleanup(func() { pgtest.Must(t, src.Close()) })
	l := &logEnv{Env: e, cfg: Config{Layout: LayoutCustom, Table: owntable.DefaultTable, Columns: Columns{
		Position: "position", XID: "xid", ID: "id", Payload: "payload", Type: "type", Group: "message_group", CreatedAt: "created_at"}}}
	l.makeIndexes()
	plain := l.open()
	publish := func(q interface {
		Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	}, group int, payload string) {
		_, err := q.Exec(e.Ctx, `INSERT INTO outrider_outbox (type, message_group, payload) VALUES ('t', $1, to_json($2::text))`, fmt.Sprint("g", group), payload)
		pgtest.Must(t, err)
	}
	fill := func(n int) {
		for i := range n {
			publish(e.Pool, i, "x")
		}
	}
	now := func() adapters.Cursor {
		c, err := src.Start(e.Ctx, adapters.Start{Kind: adapters.StartEnd})
		pgtest.Must(t, err)
		return c
	}
	fill(10)
	first, second := e.Begin(), e.Begin()
	for i := range 3 {
		publish(first, i, "late")  // 11 to 13
		publish(second, i, "late") // 14 to 16, below
	}
	fill(10)
	at := now() // position 26
	pgtest.Must(t, first.Commit(e.Ctx))
	window := now()
	pgtest.Must(t, second.Commit(e.Ctx))
	fill(10)
	end := now() // position 36
	with := func(change func(*adapters.Cursor)) adapters.Cursor {
		c := at
		change(&c)
		return c
	}
	open := with(func(c *adapters.Cursor) { c.Window, c.Paged = window.Snapshot, 13 })
	for name, tt := range map[string]struct {
		from, to adapters.Cursor
		beyond   []int64
		want     adapters.MoveCount
	}{
		"nowhere":                       {at, at, nil, adapters.MoveCount{}},
		"back":                          {at, with(func(c *adapters.Cursor) { c.Position = 8 }), nil, adapters.MoveCount{Again: 12}},
		"back, a late one is settled":   {at, with(func(c *adapters.Cursor) { c.Position = 8 }), []int64{11, 30}, adapters.MoveCount{Again: 14}},
		"back in a window":              {open, with(func(c *adapters.Cursor) { c.Position = 8 }), nil, adapters.MoveCount{Again: 14}},
		"back behind what was restored": {with(func(c *adapters.Cursor) { c.Base = 26 }), with(func(c *adapters.Cursor) { c.Position = 8 }), nil, adapters.MoveCount{Again: 18}},
		"to the end":                    {at, end, nil, adapters.MoveCount{Passed: 10, Late: 6}},
		"to the end from a window":      {open, end, []int64{14, 30}, adapters.MoveCount{Passed: 9, Late: 3}},
		"forward":                       {at, adapters.Cursor{Position: 30, Snapshot: end.Snapshot}, nil, adapters.MoveCount{Passed: 4, Late: 6}},
		"forward as of then":            {at, adapters.Cursor{Position: 30, Snapshot: window.Snapshot}, nil, adapters.MoveCount{Late: 3}},
	} {
		for kind, counter := range map[string]adapters.OperatorSource{"slots": src, "no slots": plain} {
			moves := make([]adapters.CursorMove, adapters.Slots)
			for slot := range moves {
				moves[slot] = adapters.CursorMove{Slot: slot, From: tt.from, To: tt.to}
				for _, p := range tt.beyond {
					if s := slotAt(e, p, kind == "slots"); s == slot {
						moves[slot].Beyond = append(moves[slot].Beyond, p)
					}
				}
			}
			counts, err := counter.CountMoves(e.Ctx, moves, 1000, nil)
			pgtest.Must(t, err)
			var got adapters.MoveCount
			for _, c := range counts {
				got.Again, got.Passed, got.Late = got.Again+c.Again, got.Passed+c.Passed, got.Late+c.Late
			}
			if got != tt.want {
				t.Errorf("%s, %s: %+v, want %+v", name, kind, got, tt.want)
			}
			none, err := counter.CountMoves(e.Ctx, moves, 1000, func(r *adapters.Row) bool { return r.Type != "t" })
			pgtest.Must(t, err)
			all, err := counter.CountMoves(e.Ctx, moves, 1000, func(r *adapters.Row) bool { return r.Type == "t" })
			pgtest.Must(t, err)
			if !slices.Equal(none, make([]adapters.MoveCount, adapters.Slots)) || !slices.Equal(all, counts) {
				t.Errorf("%s, %s: with a match that takes nothing %+v, with one that takes all %+v, want %+v", name, kind, none, all, counts)
			}
		}
	}
	few, err := plain.CountMoves(e.Ctx, []adapters.CursorMove{{Slot: 0, From: adapters.Cursor{Snapshot: at.Snapshot}, To: end}}, 5, nil)
	if err != nil || few[0].Passed <= 5 {
		t.Errorf("where counting stops: %+v, %v", few, err)
	}
}

// slotAt is the slot of the row at a position: that of the table, or the one of its
// group.
func slotAt(e *pgtest.Env, position int64, own bool) int {
	e.T.Helper()
	var slot int
	var group, id string
	pgtest.Must(e.T, e.Pool.QueryRow(e.Ctx, "SELECT slot, coalesce(message_group, ''), id FROM outrider_outbox WHERE position = $1", position).Scan(&slot, &group, &id))
	if own {
		return slot
	}
	return adapters.SlotOf(group, id)
}
