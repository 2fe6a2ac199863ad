package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/outbox"
)

// Removing whole partitions. One may be dropped when
//
//   - all its positions have been drawn, so that no row is to come but from
//     transactions which run now;
//   - all its rows are old enough, judging by the newest of each slot;
//   - no row is uncovered: this is looked at under an exclusive lock on the table,
//     which no transaction with rows to come or to commit shares. Rows that
//     are committed between the look before the lock and the lock are
//     newer than the cursors' snapshots, so they are uncovered.
//
// The lock is waited for briefly, held for a few index probes, and taken only
// when a look without it said that the partition can go.

const (
	// youngSQL tells whether one of the rows with the highest positions is too
	// young. Positions and times of creation are taken in the same order.
	youngSQL = `
SELECT coalesce(bool_or(o.created_at > clock_timestamp() - make_interval(secs => $1)), false)
FROM generate_series(0, 15) AS s(slot)
CROSS JOIN LATERAL (
    SELECT o.created_at FROM {table} o WHERE o.slot = s.slot::smallint
    ORDER BY o.slot DESC, o.position DESC LIMIT 1
) o`

	// uncoveredSQL finds up to a few rows of each slot that are not covered: above
	// the position, or late. The branches are those of fetchSQL.
	uncoveredSQL = `
SELECT r.slot, u.position, u.xid::text::bigint, extract(epoch FROM clock_timestamp() - u.created_at)::float8
FROM ` + coverArrays + `
CROSS JOIN LATERAL (
    (
        SELECT o.position, o.xid, o.created_at FROM {table} o
        WHERE o.slot = r.slot AND o.position > r.pos
        ORDER BY o.slot, o.position LIMIT 1
    )
    UNION ALL
    SELECT a.* FROM pg_snapshot_xip(r.snap) AS x(xid)
    CROSS JOIN LATERAL (
        SELECT o.position, o.xid, o.created_at FROM {table} o
        WHERE o.slot = r.slot AND (o.xid, o.position) > (x.xid, r.base) AND (o.xid, o.position) <= (x.xid, r.pos)
        ORDER BY o.slot, o.xid, o.position LIMIT 1
    ) a
    UNION ALL
    (
        SELECT b.* FROM (
            SELECT o.position, o.xid, o.created_at FROM {table} o
            WHERE o.slot = r.slot AND o.xid >= pg_snapshot_xmax(r.snap) AND o.position > r.base AND o.position <= r.pos
            ORDER BY o.slot, o.xid OFFSET 0
        ) b LIMIT 1
    )
) u`

	// strayBound is how far rows of the default partition are counted.
	strayBound = 100_000

	straySQL = `SELECT count(*) FROM (SELECT FROM {table} LIMIT $1) s`

	// blockedMost is how many partitions that cannot go are looked at in a step:
	// what holds one back usually holds back all after it.
	blockedMost = 4
)

// partitions takes one step in a table with partitions: those that will be
// needed are made, one that is not needed any more is dropped, and rows that
// have no partition are removed one by one.
func (p *pass) partitions(ctx context.Context) error {
	all, last, err := p.catalogue(ctx)
	if err != nil {
		return err
	}
	if !p.DryRun {
		if err := p.sink(ctx); err != nil {
			return err
		}
		if all, err = p.prepare(ctx, all, last); err != nil {
			return err
		}
	}
	p.result.Ahead = max(all.end()-last-1, 0)
	for i, blocked := 0, 0; i < len(all.ranges) && blocked < blockedMost; i++ {
		part := all.ranges[i]
		if part.high > last {
			break
		}
		may, young, err := p.mayGo(ctx, part)
		switch {
		case err != nil:
			return err
		case young:
			i = len(all.ranges)
		case !may:
			blocked++
		case p.DryRun:
			p.result.Partitions++
		default:
			dropped, err := p.drop(ctx, part)
			if err != nil {
				return err
			}
			if dropped {
				p.result.Partitions, p.result.More = 1, true
				return nil
			}
		}
	}
	if all.rest != nil && p.result.Stray > 0 {
		if err := p.rows(ctx, all.rest.name.Sanitize()); err != nil {
			return err
		}
	}
	if len(p.result.Held) == 0 {
		return p.look(ctx, [outbox.Slots]int64{})
	}
	return nil
}

// catalogue returns the partitions and the last position drawn, in that order:
// a position that is drawn meanwhile is never taken for one that is not.
func (p *pass) catalogue(ctx context.Context) (all partitions, last int64, err error) {
	if err := p.s.pool.QueryRow(ctx, lastPositionSQL, p.s.layout.table).Scan(&last); err != nil {
		return all, 0, err
	}
	if all, err = listPartitions(ctx, p.s.pool, p.s.layout.table); err != nil || all.rest == nil {
		return all, last, err
	}
	err = p.s.pool.QueryRow(ctx, inTable(straySQL, all.rest.name.Sanitize()), strayBound).Scan(&p.result.Stray)
	return all, last, err
}

// prepare makes the partitions that will be needed, in a transaction each.
func (p *pass) prepare(ctx context.Context, all partitions, last int64) (partitions, error) {
	if len(all.missing(last, p.PartitionRows)) == 0 {
		return all, nil
	}
	if p.result.Stray >= strayBound {
		// Attaching a partition reads the default one under a lock that
		// publishers wait for.
		p.s.log.WarnContext(ctx, "the outbox's default partition is too large for a new partition to be attached beside it; "+
			"its rows are removed one by one, docs/retention.md says how to end that", "table", p.s.table)
		return all, nil
	}
	for {
		var more bool
		err := p.change(ctx, func(tx pgx.Tx) (err error) {
			if all, err = listPartitions(ctx, tx, p.s.layout.table); err != nil {
				return err
			}
			missing := all.missing(last, p.PartitionRows)
			if more = len(missing) > 1; len(missing) == 0 {
				return nil
			}
			low, high := missing[0][0], missing[0][1]
			_, err = tx.Exec(ctx, attachPartition(p.s.layout.name, low, high), pgx.QueryExecModeSimpleProtocol)
			if err == nil {
				p.s.log.InfoContext(ctx, "made a partition of the outbox", "table", p.s.table, "from", low, "to", high)
				all.ranges = append(all.ranges, partition{name: partitionName(p.s.layout.name, low), low: low, high: high})
			}
			return err
		})
		if err != nil || !more {
			return all, err
		}
	}
}

// mayGo looks at a partition without locking it.
func (p *pass) mayGo(ctx context.Context, part partition) (may, young bool, err error) {
	err = p.read(ctx, func(tx pgx.Tx) error {
		table := part.name.Sanitize()
		if err := tx.QueryRow(ctx, inTable(youngSQL, table), p.Keep.Seconds()).Scan(&young); err != nil || young {
			return err
		}
		rows, err := tx.Query(ctx, inTable(uncoveredSQL, table), coverParams(p.covers)...)
		if err != nil {
			return err
		}
		if err := p.hold(rows); err != nil {
			return err
		}
		may = rows.CommandTag().RowsAffected() == 0
		return nil
	})
	return may, young, ifGone(err)
}

// ifGone makes an error of a partition that another process has dropped meanwhile
// a reason to give up.
func ifGone(err error) error {
	if failedWith(err, undefinedTable) {
		return errBusy
	}
	return err
}

// drop drops a partition, unless a row of it has become visible meanwhile.
func (p *pass) drop(ctx context.Context, part partition) (dropped bool, err error) {
	table := part.name.Sanitize()
	began := time.Now()
	err = p.change(ctx, func(tx pgx.Tx) error {
		// The table first, as everybody does; on the partition nobody is waited
		// for, because all publishers wait by now.
		lock := "LOCK TABLE ONLY " + p.s.layout.table + " IN ACCESS EXCLUSIVE MODE;\n" +
			"LOCK TABLE " + table + " IN ACCESS EXCLUSIVE MODE NOWAIT"
		if _, err := tx.Exec(ctx, lock, pgx.QueryExecModeSimpleProtocol); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, inTable(uncoveredSQL, table), coverParams(p.covers)...)
		if err != nil {
			return err
		}
		if err := p.hold(rows); err != nil || rows.CommandTag().RowsAffected() > 0 {
			return err
		}
		dropped = true
		_, err = tx.Exec(ctx, "DROP TABLE "+table, pgx.QueryExecModeSimpleProtocol)
		return err
	})
	if err != nil || !dropped {
		return false, ifGone(err)
	}
	p.s.log.InfoContext(ctx, "dropped a partition of the outbox that every route has settled", "table", p.s.table,
		"from", part.low, "to", part.high, "took", time.Since(began).Round(time.Millisecond))
	return true, nil
}
