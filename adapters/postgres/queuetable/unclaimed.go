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
	"github.com/outriderhq/outrider/adapters/layout"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
	"github.com/outriderhq/outrider/adapters/postgres/internal/wire"
)

// In tables without a status for rows that are being processed a claim is a
// look and writes nothing, and a settle changes what waits still, in lanes whose epoch in the state
// store is the one that the lane was taken with. See docs/design.md, "Queue tables without a
// claim status".

// cursorTable is the state store's table with the epochs of lanes.
var cursorTable = pgx.Identifier{"outrider_cursor"}

// Fence says where the epochs of lanes are that settling tables without claims asks for.
type Fence struct {
	// Here: the state store is in the database of the tables.
	Here bool

	// Schema of the state store's tables. Empty: that of the connection's search_path.
	Schema string
}

// table is the table that has the epochs.
func (f Fence) table() pgx.Identifier { return f.of(cursorTable) }

// of is a table of the state store.
func (f Fence) of(table pgx.Identifier) pgx.Identifier {
	if f.Schema == "" {
		return table
	}
	return pgx.Identifier{f.Schema, table[0]}
}

// SkipRecent has claims of tables without a claim status pass over rows until they are so
// old, from the next claim on: something else in the process delivers those from memory. 0, the default: none.
func (q *Queue) SkipRecent(age time.Duration) { q.recent.Store(int64(age)) }

// hereArgs are the parameters of a look that only tables without claims have: the rows that are held,
// as the keys of a JSON object, and how old a row has to be, in seconds.
func (s *service) hereArgs() []any {
	if !s.table.sql.layout.Claimless() {
		return nil
	}
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

// lookBytes is the parameter of a look that bounds it by bytes.
func (q *queueSQL) lookBytes() string {
	if q.layout.Claimless() {
		return "$8"
	}
	return "$6"
}

// waitHere is for how many seconds a row is not to be taken, a template.
func (q *queueSQL) waitHere() string {
	recent := until("({created} + $7::text::float8 * interval '1 s')", q.types.created)
	if q.keeps(q.layout.Columns.NextAttempt) {
		recent = "greatest(" + until("{next_attempt}", q.types.due) + ", " + recent + ")"
	}
	return "coalesce(" + recent + ", 0)"
}

// attemptsHere are the failed attempts of a row that was looked at, a template.
func (q *queueSQL) attemptsHere() string {
	if !q.keeps(q.layout.Columns.Attempts) {
		return "0"
	}
	return "coalesce({attempts}, 0)::int"
}

// notOurs reports whether a row that a look found to be held is another process's: in a table without claims that of
// a session of its lane that has ended. Its result is still to be written, and may be refused.
func (s *service) notOurs(g *queueGroup, key string, claimed []byte) bool {
	if !s.table.sql.layout.Claimless() {
		return claimed == nil || !s.q.ours(s.table, key, wire.Int64FromBinary(claimed))
	}
	s.q.mu.Lock()
	defer s.q.mu.Unlock()
	h := s.table.holds[key]
	return h != nil && h.term != s.Terms[g.slot]
}

// attemptsOf are the failed attempts of a row, in a table without claims: others say it when they are claimed.
func (s *service) attemptsOf(raw [][]byte) int {
	l := s.table.sql.layout
	if !l.Claimless() {
		return 0
	}
	return int(wire.Int32FromBinary(raw[lookExtra+len(l.Headers)]))
}

// keepPicked takes the picked rows of a table without claims.
func (s *service) keepPicked() {
	now := time.Now()
	s.q.mu.Lock()
	defer s.q.mu.Unlock()
	for _, p := range s.picked {
		s.q.hot.found(p.row.ID)
		s.q.tokens++
		h := &hold{stamp: s.q.tokens, at: now, term: s.Terms[p.row.Slot]}
		s.rows = append(s.rows, s.hold(p, h, p.attempts))
	}
}

// findFence looks up the table with the epochs, once: the state store has made it before a lane is
// owned. The caller has claiming.
func (q *Queue) findFence(ctx context.Context, t *queueTable) error {
	if !q.fence.Here || t.sql.lanes != "" || !t.sql.layout.Claimless() {
		return nil
	}
	var full pgx.Identifier
	if err := (&pg.Location{Name: q.fence.table()}).Find(ctx, q.pool, func(found pgx.Identifier) { full = found }); err != nil {
		return fmt.Errorf("find the state store's table of lanes: %w", err)
	}
	q.mu.Lock() // settling reads it
	defer q.mu.Unlock()
	t.sql.lanes, t.described = full.Sanitize(), false
	return nil
}

// fenced are the lanes of a statement that have the epoch which its rows say, as the beginning of it, and the
// condition that a row s is of one of them. Who takes a lane waits for the end of the transaction. Lanes are locked in the order
// in which operators' commands lock them; see [settling.lockLanes].
// Parameters, from number first on: arrays with the route, slot and epoch of each lane.
func (q *queueSQL) fenced(first int) (with, join string) {
	if q.lanes == "" {
		return "", ""
	}
	return fmt.Sprintf(`WITH lanes AS MATERIALIZED (
    SELECT l.n
    FROM unnest($%d::text[], $%d::smallint[], $%d::bigint[]) WITH ORDINALITY AS l(route, slot, epoch, n)
    JOIN %s c ON c.route = l.route AND c.slot = l.slot AND c.epoch = l.epoch
    ORDER BY c.route, c.slot
    FOR SHARE OF c
)
`, first, first+1, first+2, q.lanes), "\n    JOIN lanes ON lanes.n = r.lane"
}

// settleHere writes one outcome for many rows of a table without claims. Parameters, arrays with one entry per row:
// key, attempts, the number of its lane and, for what is not done, error and in how many
// seconds it is due; then those of the fence. It returns the numbers of the rows that were changed.
func (q *queueSQL) settleHere(o settlement) string {
	if q.notes != "" && !o.done {
		return q.settleNoted(o)
	}
	arrays, columns, next := "", "", 4
	if !o.done {
		arrays, columns, next = ", $4::text[], $5::float8[]", ", error, wait", 6
	}
	with, join := q.fenced(next)
	write, from := q.writing(o)
	return q.fill(fmt.Sprintf(`%s%s
%s (
    SELECT r.*
    FROM unnest($1::{key[]}, $2::int[], $3::int[]%s) WITH ORDINALITY AS r(key, attempts, lane%s, n)%s
) s
WHERE {key} = s.key AND ({status} IN ({waiting})) IS TRUE
RETURNING s.n::int`, with, write, from, arrays, columns, join), "{this}", o.this)
}

// textHere builds the statements for a table without claims.
func (q *queueSQL) textHere(indexes queueIndexes) queueText {
	return queueText{
		everything: q.everything(true),
		first:      q.byAge(pageFirst, true), next: q.byAge(pageNext, true), latest: q.byAge(pageLatest, true), later: q.byAge(pageLater, true),
		look:   q.look(indexes),
		done:   q.settle(settlement{status: "{is:done}", done: true}),
		retry:  q.settle(settlement{status: "{is:retrying}", withError: !q.layout.ErrorWhenDead}),
		dead:   q.settle(settlement{status: "{is:dead}", withError: true, dead: true}),
		put:    q.settle(settlement{status: q.waitingAgain()}),
		extend: q.stillWaits(),
		isDone: q.isHere("{is:done}"), isDead: q.isHere("{dead}"),
		locked: q.locked(), elsewhere: q.elsewhere(),
		deadBy: q.deadBy(), forgetNotes: q.forgetNotes(),
	}
}

// stillWaits finds the rows that wait. Parameter: keys.
func (q *queueSQL) stillWaits() string {
	return q.fill(`SELECT s.n::int FROM unnest($1::{key[]}) WITH ORDINALITY AS s(key, n)
JOIN {t} t ON {key} = s.key WHERE ({status} IN ({waiting})) IS TRUE`)
}

// isHere finds the rows that have one of the statuses which a settle wrote, or are gone. Parameter: keys.
func (q *queueSQL) isHere(statuses string) string {
	return q.fill(`SELECT s.n::int FROM unnest($1::{key[]}) WITH ORDINALITY AS s(key, n)
LEFT JOIN {t} t ON {key} = s.key WHERE {key} IS NULL OR ({status} IN (` + statuses + `)) IS TRUE`)
}

// lanesOf are the lanes of the rows of one statement.
type lanesOf struct {
	number                map[laneEpoch]int // from 1
	routes, slots, epochs wire.Array
}

// lockLanes locks the lanes of all statements at once, where several ask for epochs: otherwise they are locked in the order of the
// statements, and the settle and an operator's command can wait for each other.
func (s *settling) lockLanes(batch *pgx.Batch) {
	s.q.mu.Lock() // describing a table writes it
	defer s.q.mu.Unlock()
	lanes, statements, with := lanesOf{}, 0, ""
	for _, part := range s.order {
		rows := s.parts[part]
		if part.text == "" || !rows.fenced {
			continue
		}
		statements++
		with, _ = part.table.sql.fenced(1)
		for _, r := range rows.results {
			lanes.of(r)
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

// of is the number of a row's lane.
func (l *lanesOf) of(r *adapters.ClaimResult) int {
	at := laneEpoch{r.Lane, r.Epoch}
	if n := l.number[at]; n > 0 {
		return n
	}
	if l.number == nil {
		l.number = map[laneEpoch]int{}
	}
	l.number[at] = len(l.number) + 1
	l.routes.Text(r.Lane.Route)
	l.slots.Number(int64(r.Lane.Slot))
	l.epochs.Number(r.Epoch)
	return len(l.number)
}

// stillOurs returns the claims of a table without claims that are lost: their rows are final, because
// somebody else made them so.
func (q *Queue) stillOurs(ctx context.Context, e *extension) (lost []*adapters.Claim, err error) {
	waits := make([]bool, len(e.claims))
	rows, err := q.pool.Query(ctx, e.text, e.keys.String())
	if err != nil {
		return nil, err
	}
	if err := markSettled(func(n int) { waits[n] = true })(rows); err != nil {
		return nil, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, c := range e.claims {
		if waits[i] || e.holds[i].tried {
			continue
		}
		lost = append(lost, c)
		q.lose(e.table, c.Key, e.holds[i])
	}
	return lost, nil
}

// args are the parameters of the fence.
func (l *lanesOf) args() []any { return []any{l.routes.String(), l.slots.String(), l.epochs.String()} }

// died is when a row became dead, as far as the table says; a template.
func (q *queueSQL) died() string {
	c := &q.layout.Columns
	var of []string
	for _, column := range []layout.Named{{What: "updated", Name: c.Updated}, {What: "claimed", Name: c.Claimed}} {
		if column.Name != "" {
			of = append(of, "{"+column.What+"}")
		}
	}
	if q.notes != "" {
		of = append(of, "n.noted_at")
	}
	if q.layout.Claimless() && c.NextAttempt != "" { // the last attempt was not before that
		of = append(of, "{next_attempt}")
	}
	return "coalesce(" + strings.Join(append(of, "{created}"), ", ") + ")"
}
