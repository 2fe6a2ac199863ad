package retention

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/sqltext"
)

const (
	// aheadSQL is by how much a row's time of creation may be in the future: clocks
	// differ. A row beyond that says nothing about its age.
	aheadSQL = `interval '10 minutes'`

	// ageSQL is the age of a row in seconds, bounded so that it is a number.
	ageSQL = `extract(epoch FROM clock_timestamp() -
    least(greatest(o.created_at, clock_timestamp() - interval '100 years'), clock_timestamp() + interval '100 years'))::float8`

	// pageSQL looks at the first rows of each slot that are covered by position,
	// in the order of the primary key.
	pageSQL = `
SELECT r.slot, o.position, o.covered, o.old, o.ahead
FROM ` + coverArrays + `
JOIN unnest($1::smallint[], $5::bigint[]) AS m(slot, mark) ON m.slot = r.slot
CROSS JOIN LATERAL (
    SELECT o.position, o.position <= r.base OR pg_visible_in_snapshot(o.xid, r.snap) AS covered,
           o.created_at <= clock_timestamp() - make_interval(secs => $6) AS old,
           o.created_at > clock_timestamp() + ` + aheadSQL + ` AS ahead
    FROM {table} o
    WHERE o.slot = r.slot AND o.position > m.mark AND o.position <= r.pos
    ORDER BY o.slot, o.position
    LIMIT $7
) o
ORDER BY r.slot, o.position`

	// removeSQL deletes by primary key. Rows never change, and what is covered
	// stays covered, so there is nothing to check again.
	removeSQL = `
DELETE FROM {table} o USING unnest($1::smallint[], $2::bigint[]) AS k(slot, position)
WHERE o.slot = k.slot AND o.position = k.position`
)

// rows removes one batch of rows of a table: the outbox, or one partition of it.
func (p *pass) rows(ctx context.Context, table string) error {
	state := p.sweep()
	marks := state.marks
	within := p.change
	if p.DryRun {
		within = p.read
	}
	err := within(ctx, func(tx pgx.Tx) error {
		found, err := p.page(ctx, tx, table, marks)
		if err != nil {
			return err
		}
		p.result.More = found.full
		p.result.Rows += int64(len(found.slots))
		marks = found.marks
		if p.DryRun || len(found.slots) == 0 {
			return nil
		}
		_, err = tx.Exec(ctx, sqltext.Fill(removeSQL, sqltext.Names{"table": table}), found.slots, found.positions)
		return err
	})
	if err == nil {
		state.marks = marks
		if p.DryRun {
			state.begun = time.Now()
		}
	}
	return err
}

// rowPage are the rows of a page that may go.
type rowPage struct {
	slots     []int16
	positions []int64
	marks     [adapters.Slots]int64
	full      bool // there may be more of them behind the page
}

// page looks at the next rows of each slot. A slot's mark moves over what was
// looked at, up to the first row that is too young.
func (p *pass) page(ctx context.Context, tx pgx.Tx, table string, marks [adapters.Slots]int64) (rowPage, error) {
	f := rowPage{marks: marks}
	limit := max(p.Batch/adapters.Slots, 1)
	args := append(coverParams(p.covers), marks[:], p.Keep.Seconds(), limit)
	rows, err := tx.Query(ctx, sqltext.Fill(pageSQL, sqltext.Names{"table": table}), args...)
	if err != nil {
		return f, err
	}
	var r pageRow
	var slots [adapters.Slots]slotPage
	old := &p.sweep().old
	_, err = pgx.ForEachRow(rows, []any{&r.slot, &r.position, &r.covered, &r.old, &r.ahead}, func() error {
		f.offer(&r, &slots[r.slot], &old[r.slot])
		return nil
	})
	for i := range slots {
		if slots[i].seen == limit {
			f.full, f.marks[i] = true, slots[i].last
		}
	}
	return f, err
}

// pageRow is a row that was looked at.
type pageRow struct {
	slot                int16
	position            int64
	covered, old, ahead bool
}

// slotPage is what was seen of a slot.
type slotPage struct {
	young bool // what follows is too young
	seen  int  // rows up to there
	last  int64
	ahead []int64 // covered rows that are dated in the future, since the last row that is not
}

// offer decides about a row. One that is dated in the future is as old as a row
// behind it that is not: it was written before that one. old is the highest
// position known to be old enough.
func (p *rowPage) offer(r *pageRow, s *slotPage, old *int64) {
	s.young = s.young || !r.old && !r.ahead
	if s.young {
		return
	}
	s.seen, s.last = s.seen+1, r.position
	if r.ahead && r.position > *old {
		if r.covered {
			s.ahead = append(s.ahead, r.position)
		}
		return
	}
	*old, p.marks[r.slot] = max(*old, r.position), r.position
	if r.covered {
		s.ahead = append(s.ahead, r.position)
	}
	for _, position := range s.ahead {
		p.slots, p.positions = append(p.slots, r.slot), append(p.positions, position)
	}
	s.ahead = s.ahead[:0]
}
