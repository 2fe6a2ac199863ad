package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/outbox"
)

const (
	// pageSQL looks at the first rows of each slot that are covered by position,
	// in the order of the primary key.
	pageSQL = `
SELECT r.slot, o.position, o.covered, o.old
FROM ` + coverArrays + `
JOIN unnest($1::smallint[], $5::bigint[]) AS m(slot, mark) ON m.slot = r.slot
CROSS JOIN LATERAL (
    SELECT o.position, o.position <= r.base OR pg_visible_in_snapshot(o.xid, r.snap) AS covered,
           o.created_at <= clock_timestamp() - make_interval(secs => $6) AS old
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
	state := &p.s.retention
	if time.Since(state.swept) > sweepEvery {
		state.swept, state.marks = time.Now(), [outbox.Slots]int64{}
	}
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
		_, err = tx.Exec(ctx, inTable(removeSQL, table), found.slots, found.positions)
		return err
	})
	if err == nil {
		state.marks = marks
	}
	return err
}

// rowPage are the rows of a page that may go.
type rowPage struct {
	slots     []int16
	positions []int64
	marks     [outbox.Slots]int64
	full      bool // there may be more of them behind the page
}

// page looks at the next rows of each slot. A slot's mark moves over what was
// looked at, up to the first row that is too young.
func (p *pass) page(ctx context.Context, tx pgx.Tx, table string, marks [outbox.Slots]int64) (rowPage, error) {
	f := rowPage{marks: marks}
	limit := max(p.Batch/outbox.Slots, 1)
	args := append(coverParams(p.covers), marks[:], p.Keep.Seconds(), limit)
	rows, err := tx.Query(ctx, inTable(pageSQL, table), args...)
	if err != nil {
		return f, err
	}
	var slot int16
	var position int64
	var covered, old bool
	var young [outbox.Slots]bool
	var seen [outbox.Slots]int
	_, err = pgx.ForEachRow(rows, []any{&slot, &position, &covered, &old}, func() error {
		young[slot] = young[slot] || !old
		if young[slot] {
			return nil
		}
		f.marks[slot] = position
		seen[slot]++
		if covered {
			f.slots, f.positions = append(f.slots, slot), append(f.positions, position)
		}
		return nil
	})
	for i := range seen {
		f.full = f.full || seen[i] == limit
	}
	return f, err
}
