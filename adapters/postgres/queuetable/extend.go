package queuetable

import (
	"context"
	"slices"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
	"github.com/outriderhq/outrider/adapters/postgres/internal/wire"
)

// Extend implements [adapters.Queue]. The time at which the rows were marked is
// renewed in the table; the claims stay as they are. After an error they still do:
// each time that may be in the table by then is known.
func (q *Queue) Extend(ctx context.Context, claims []*adapters.Claim) (lost []*adapters.Claim, err error) {
	lost, late, err := q.renew(ctx, claims)
	if err != nil || len(late) == 0 {
		return lost, err
	}
	more, _, err := q.renew(ctx, late)
	return append(lost, more...), err
}

// renew writes new times. Late are the claims which now have the time that an
// earlier extension chose, because it was not known whether it had been written.
func (q *Queue) renew(ctx context.Context, claims []*adapters.Claim) (lost, late []*adapters.Claim, err error) {
	byTable := map[*queueTable]*extension{}
	now := time.Now()
	q.mu.Lock()
	for _, c := range claims {
		h := q.held(c)
		if h == nil {
			lost = append(lost, c)
			continue
		}
		t := q.table(c.Table)
		if byTable[t] == nil {
			byTable[t] = &extension{table: t, text: t.text.extend}
		}
		if !byTable[t].add(c, h, now) {
			late = append(late, c)
		}
	}
	q.mu.Unlock()
	for t, e := range byTable {
		gone, err := t.claims.extend(ctx, q, e)
		if err != nil {
			return nil, nil, queueError(t.name, "extend claims", pg.Refused(err))
		}
		lost = append(lost, gone...)
	}
	late = slices.DeleteFunc(late, func(c *adapters.Claim) bool { return slices.Contains(lost, c) })
	return lost, late, nil
}

// extension is what one statement renews.
type extension struct {
	table                        *queueTable
	text                         string
	claims                       []*adapters.Claim
	holds                        []*hold
	keys, stamps, formers, nexts wire.Array
}

// add chooses the new time here, so that it is known even when the outcome of
// the statement is not: until then either may stand in the row. As long as that is so no
// other time is chosen, and add returns false. A time is whole seconds later than the
// one before it, so that the column keeps it whatever its precision.
func (e *extension) add(c *adapters.Claim, h *hold, now time.Time) (fresh bool) {
	if fresh = h.former == h.stamp; fresh {
		passed := max(now.Sub(h.at), 0).Truncate(time.Second)
		h.stamp, h.at = h.stamp+passed.Microseconds(), h.at.Add(passed)
	}
	e.claims, e.holds = append(e.claims, c), append(e.holds, h)
	e.keys.Text(c.Key)
	e.stamps.Text(timeText(h.stamp))
	e.formers.Text(timeText(h.former))
	e.nexts.Text(timeText(h.stamp))
	return fresh
}

func (marking) extend(ctx context.Context, q *Queue, e *extension) (lost []*adapters.Claim, err error) {
	rows, err := q.pool.Query(ctx, e.text, wire.RawResults, e.keys.String(), e.stamps.String(), e.formers.String(), e.nexts.String())
	if err != nil {
		return nil, err
	}
	now := map[int]int64{}
	for rows.Next() {
		v := rows.RawValues()
		now[int(wire.Int32FromBinary(v[0]))-1] = wire.Int64FromBinary(v[1])
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	return q.loseBut(e, func(i int) bool {
		stamp, ok := now[i]
		if ok {
			e.holds[i].stamp, e.holds[i].former = stamp, stamp // as the column keeps it
		}
		return ok
	}), nil
}

// loseBut loses the claims of an extension but those that are ours still, and those that a settle may have ended, which the next one finds out.
func (q *Queue) loseBut(e *extension, ours func(int) bool) (lost []*adapters.Claim) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, c := range e.claims {
		if !ours(i) && !e.holds[i].tried {
			lost = append(lost, c)
			q.lose(e.table, c.Key, e.holds[i])
		}
	}
	return lost
}

// Recover implements [adapters.Queue]. Rows that this queue holds are never
// recovered, however old their claims. It also notices indexes that were made
// or dropped meanwhile.
func (q *Queue) Recover(ctx context.Context) (int, error) {
	q.claiming.Lock()
	defer q.claiming.Unlock()
	if err := q.findUnknown(ctx, true); err != nil {
		return 0, queueError(q.tables[0].name, "find what earlier claims took", err)
	}
	n := 0
	for _, t := range q.tables {
		t.described = false
		err := q.describe(ctx, t)
		if err == nil {
			var recovered int
			recovered, err = t.claims.recover(ctx, q, t)
			n += recovered
		}
		if err != nil {
			return n, queueError(t.name, "recover stuck rows", err)
		}
	}
	return n, nil
}

func (marking) recover(ctx context.Context, q *Queue, t *queueTable) (int, error) {
	return q.putBack(ctx, t, t.text.recover, q.timeout.Seconds(), q.keysOf(t))
}

// putBack runs a statement that puts rows back, and has their groups looked at.
func (q *Queue) putBack(ctx context.Context, t *queueTable, text string, args ...any) (n int, err error) {
	rows, err := q.pool.Query(ctx, text, append([]any{wire.RawResults}, args...)...)
	if err != nil {
		return 0, err
	}
	for rows.Next() {
		v := rows.RawValues()
		t.found(textOrNull(v[1]), wire.Int64FromBinary(v[0]))
		n++
	}
	return n, rows.Err()
}

// Processing implements [adapters.OperatorQueue]. The table's time zone is
// taken for that of the session, as everywhere.
func (q *Queue) Processing(ctx context.Context, most int) (p adapters.Processing, err error) {
	for _, t := range q.tables {
		if err := t.find(ctx, q.pool); err != nil {
			return adapters.Processing{}, queueError(t.name, "count rows", err)
		}
		if !t.claims.marks() {
			continue
		}
		var n int
		var longest float64
		if err := q.pool.QueryRow(ctx, t.sql.count(), most+1).Scan(&n, &longest); err != nil {
			return adapters.Processing{}, queueError(t.name, "count rows", err)
		}
		p.Rows += min(n, most)
		p.More = p.More || n > most
		p.Longest = max(p.Longest, time.Duration(longest*float64(time.Second)))
	}
	return p, nil
}
