package queuetable

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
	"github.com/outriderhq/outrider/adapters/postgres/internal/wire"
)

// In tables without a status for rows that are being processed a claim is a
// look and writes nothing, and a settle changes what waits still, in lanes whose epoch in the state
// store is the one that the lane was taken with. See docs/design.md, "Queue tables without a
// claim status".

// cursorTable is the state store's table with the epochs of lanes.
var cursorTable = pgx.Identifier{"outrider_cursor"}

// SkipRecent has claims of tables without a claim status pass over rows until they are so
// old, from the next claim on: something else in the process delivers those from memory. 0, the default: none.
func (q *Queue) SkipRecent(age time.Duration) { q.recent.Store(int64(age)) }

// args are the rows that are held, as the keys of a JSON object, and how old a row has to be, in seconds.
func (remembering) args(s *tableClaim) []any {
	var keys strings.Builder
	keys.WriteByte('{')
	s.q.mu.Lock()
	for key := range s.table.holds {
		if keys.Len() > 1 {
			keys.WriteByte(',')
		}
		text, _ := json.Marshal(key) // a string has no error
		keys.Write(text)
		keys.WriteString(":0")
	}
	s.q.mu.Unlock()
	keys.WriteByte('}')
	var recent *string
	if age := time.Duration(s.q.recent.Load()); age > 0 {
		text := strconv.FormatFloat(age.Seconds(), 'f', 6, 64)
		recent = &text
	}
	return []any{keys.String(), recent}
}

// heldHere is the condition that this queue holds a row, which it says with the look; a template. As a query of its own the
// object is read once, not for each row.
const heldHere = "((SELECT $6::text::jsonb) ? {key}::text)"

func (remembering) budget() string { return "$8" }

func (remembering) unfinished(s *Statuses) []string { return s.Waiting() }

func (remembering) held(*queueSQL, []string) []string { return nil }

func (remembering) looked(q *queueSQL) (claimed, held, wait string) {
	return "NULL::text", heldHere, q.waitHere()
}

func (remembering) complete(q *queueSQL, t *queueText) { t.extend = q.stillWaits() }

// attempts are the failed attempts of a row that was looked at.
func (remembering) attempts(q *queueSQL) string {
	if !q.keeps(q.layout.Columns.Attempts) {
		return "0"
	}
	return "coalesce({attempts}, 0)::int"
}

// theirs reports whether a row that is held is that of a session of its lane that has ended. Its result is still to be written, and may be
// refused.
func (remembering) theirs(s *tableClaim, g *queueGroup, key string, _ []byte) bool {
	s.q.mu.Lock()
	defer s.q.mu.Unlock()
	h := s.table.holds[key]
	return h != nil && h.term != s.Terms[g.slot]
}

func (remembering) failed(s *tableClaim, raw [][]byte) int {
	return int(wire.Int32FromBinary(raw[lookExtra+len(s.table.sql.layout.Headers)]))
}

// take remembers the picked rows.
func (remembering) take(_ context.Context, s *tableClaim) error {
	now := time.Now()
	s.q.mu.Lock()
	defer s.q.mu.Unlock()
	for _, p := range s.picked {
		s.q.tokens++
		h := &hold{stamp: s.q.tokens, at: now, term: s.Terms[p.row.Slot]}
		s.rows = append(s.rows, s.hold(p, h, p.attempts))
	}
	return nil
}

// prepare looks up the state store's tables, once.
func (remembering) prepare(ctx context.Context, q *Queue, t *queueTable) error {
	if err := q.findFence(ctx, t); err != nil {
		return fmt.Errorf("find the state store's table of lanes: %w", err)
	}
	if err := q.findNotes(ctx, t); err != nil {
		return fmt.Errorf("find the state store's table of notes: %w", err)
	}
	return nil
}

// recover deletes notes that are not needed any more: no row is marked.
func (remembering) recover(ctx context.Context, q *Queue, t *queueTable) (int, error) {
	return 0, q.expireNotes(ctx, t)
}

// findFence looks up the table with the epochs, once: the state store has made it before a lane is
// owned. The caller has claiming.
func (q *Queue) findFence(ctx context.Context, t *queueTable) error {
	if !q.fence.Here || t.sql.lanes != "" {
		return nil
	}
	return q.locate(ctx, t, cursorTable, &t.sql.lanes)
}

// locate looks up a table of the state store, on which statements depend. The caller has claiming.
func (q *Queue) locate(ctx context.Context, t *queueTable, name pgx.Identifier, found *string) error {
	full, err := pg.LocateTable(ctx, q.pool, q.fence.of(name))
	if err != nil {
		return err
	}
	q.mu.Lock() // settling reads it
	defer q.mu.Unlock()
	*found, t.described = full.Sanitize(), false
	return nil
}

// lanesOf are the lanes of the rows of one statement.
type lanesOf struct {
	fenced                bool              // their epochs are asked for
	numbers               map[laneEpoch]int // from 1
	routes, slots, epochs wire.Array
}

// lockLanes locks the lanes of all statements at once, where several ask for epochs: otherwise they are locked in the order of the
// statements, and the settle and an operator's command can wait for each other.
func (s *settling) lockLanes(batch *pgx.Batch) {
	s.q.mu.Lock() // describing a table writes it
	defer s.q.mu.Unlock()
	lanes, statements, with := lanesOf{}, 0, ""
	for _, rows := range s.order {
		if rows.text == "" || rows.owners.fence() == nil {
			continue
		}
		statements++
		with, _ = rows.table.sql.fenced(1)
		for _, r := range rows.results {
			lanes.number(r, nil)
		}
	}
	if statements > 1 {
		batch.Queue(with+"SELECT FROM lanes", lanes.args()...)
	}
}

// laneEpoch is a lane as it was taken.
type laneEpoch struct {
	lane  adapters.LaneRef
	epoch int64
}

func (remembering) owners(t *queueTable) owners { return &lanesOf{fenced: t.sql.lanes != ""} }

// number is the number of a row's lane.
func (l *lanesOf) number(r *adapters.ClaimResult, _ *hold) int {
	at := laneEpoch{r.Lane, r.Epoch}
	if n := l.numbers[at]; n > 0 {
		return n
	}
	if l.numbers == nil {
		l.numbers = map[laneEpoch]int{}
	}
	l.numbers[at] = len(l.numbers) + 1
	l.routes.Text(r.Lane.Route)
	l.slots.Number(int64(r.Lane.Slot))
	l.epochs.Number(r.Epoch)
	return len(l.numbers)
}

// extend returns the claims that are lost: another process has made their rows final.
func (remembering) extend(ctx context.Context, q *Queue, e *extension) (lost []*adapters.Claim, err error) {
	waits := make([]bool, len(e.claims))
	rows, err := q.pool.Query(ctx, e.text, e.keys.String())
	if err != nil {
		return nil, err
	}
	if err := markSettled(func(n int) { waits[n] = true })(rows); err != nil {
		return nil, err
	}
	return q.loseBut(e, func(i int) bool { return waits[i] }), nil
}

func (*lanesOf) settling(rows *settleRows) []any {
	return []any{rows.keys.String(), rows.attempts.String(), rows.at.String()}
}

func (*lanesOf) asking(rows *settleRows, _ time.Duration) []any { return []any{rows.keys.String()} }

func (l *lanesOf) fence() *lanesOf {
	if !l.fenced {
		return nil
	}
	return l
}

// args are the parameters of the fence.
func (l *lanesOf) args() []any { return []any{l.routes.String(), l.slots.String(), l.epochs.String()} }

// noteTable is the state store's table of notes.
var noteTable = pgx.Identifier{"outrider_note"}

// notePage is how many notes one Recover looks at.
const notePage = 1000

// findNotes looks up the table of notes, once. The caller has claiming.
func (q *Queue) findNotes(ctx context.Context, t *queueTable) error {
	if !t.sql.layout.Noted() || t.sql.notes != "" {
		return nil
	}
	return q.locate(ctx, t, noteTable, &t.sql.notes)
}

// expireNotes deletes notes whose rows others have made final, deleted or sent again: a page of them in each call.
func (q *Queue) expireNotes(ctx context.Context, t *queueTable) error {
	if !t.sql.layout.Noted() {
		return nil
	}
	if err := q.findNotes(ctx, t); err != nil {
		return err
	}
	rows, err := q.pool.Query(ctx, t.sql.pageOfNotes(), t.notesFrom, notePage)
	if err != nil {
		return err
	}
	keys, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	if len(keys) > 0 {
		if _, err := q.pool.Exec(ctx, t.sql.forgetNotes(), keys); err != nil {
			return err
		}
	}
	if t.notesFrom = ""; len(keys) == notePage {
		t.notesFrom = keys[notePage-1]
	}
	return nil
}

// lookUpNotes is findNotes for operators' commands: a state store that was not made yet, or by an earlier version, has no notes.
func (q *Queue) lookUpNotes(ctx context.Context, t *queueTable) error {
	err := q.findNotes(ctx, t)
	if pg.FailedWith(err, pg.UndefinedTable, pg.InvalidSchema) {
		return nil
	}
	return err
}
