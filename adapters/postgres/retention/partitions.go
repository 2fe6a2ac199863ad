package retention

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/sqltext"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
	"github.com/outriderhq/outrider/adapters/postgres/internal/reader"
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
// lock.go explains how the lock is acquired. It is held for a few index
// probes, and taken only when a look without it said that the partition can go.

const (
	// agesSQL looks at the newest rows of each slot: is one of them too young, and
	// are all of them dated in the future, so that they say nothing. Positions and
	// times of creation are taken in the same order, by and large.
	agesSQL = `
SELECT coalesce(bool_or(n.young), false), coalesce(bool_and(n.ahead), false)
FROM generate_series(0, 15) AS s(slot)
CROSS JOIN LATERAL (
    SELECT a.ahead, NOT a.ahead AND a.created_at > clock_timestamp() - make_interval(secs => $1) AS young
    FROM (
        SELECT o.created_at, o.created_at > clock_timestamp() + ` + aheadSQL + ` AS ahead
        FROM {table} o WHERE o.slot = s.slot::smallint
        ORDER BY o.slot DESC, o.position DESC LIMIT 16
    ) a
) n`

	// uncoveredSQL finds up to a few rows of each slot that are not covered: above
	// the position, or late. The branches are those of fetchSQL.
	uncoveredSQL = `
SELECT r.slot, o.position, o.xid::text::bigint, ` + ageSQL + `
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
) o`

	// strayBound is how far rows of the default partition are counted.
	strayBound = 100_000

	straySQL = `SELECT count(*) FROM (SELECT FROM {table} LIMIT $1) s`

	// blockedMost is how many partitions that cannot go are looked at in a step:
	// what holds one back usually holds back all after it.
	blockedMost = 4

	// droppedMost is about how many partitions are dropped under one lock.
	droppedMost = 32
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
	free, err := p.unneeded(ctx, all.ranges, last)
	if err != nil {
		return err
	}
	switch {
	case len(free) == 0:
	case p.DryRun:
		p.result.Partitions = len(free)
	default:
		if err := p.drop(ctx, free); err != nil || p.result.More {
			return err
		}
	}
	if all.rest != nil && p.result.Stray > 0 {
		if err := p.rows(ctx, all.rest.name.Sanitize()); err != nil {
			return err
		}
	}
	return p.look(ctx, [adapters.Slots]int64{})
}

// catalogue returns the partitions and the last position drawn, in that order:
// a position that is drawn meanwhile is never taken for one that is not.
func (p *pass) catalogue(ctx context.Context) (all partitions, last int64, err error) {
	if err := p.base.Pool.QueryRow(ctx, reader.LastPositionSQL, p.base.Quoted).Scan(&last); err != nil {
		return all, 0, err
	}
	if all, err = listPartitions(ctx, p.base.Pool, p.base.Quoted); err != nil || all.rest == nil {
		return all, last, err
	}
	err = p.base.Pool.QueryRow(ctx, sqltext.Fill(straySQL, sqltext.Names{"table": all.rest.name.Sanitize()}), strayBound).Scan(&p.result.Stray)
	return all, last, err
}

// prepare makes the partitions that will be needed, in a transaction each. The first
// one is made while no transaction writes, if it would be close ahead of the last position.
func (p *pass) prepare(ctx context.Context, all partitions, last int64) (partitions, error) {
	_, quiet, missing := all.next(last, p.PartitionRows)
	if !missing {
		return all, nil
	}
	if p.result.Stray >= strayBound {
		// Attaching a partition reads the default one under a lock that
		// publishers wait for.
		p.base.Log.WarnContext(ctx, "the outbox's default partition is too large for a new partition to be attached beside it; "+
			"its rows are removed one by one, docs/retention.md says how to end that", "table", p.base.Table)
		return all, nil
	}
	if quiet {
		err := p.exclusively(ctx, "SHARE ROW EXCLUSIVE", func(tx pgx.Tx) (err error) {
			err = tx.QueryRow(ctx, reader.LastPositionSQL, p.base.Quoted).Scan(&last)
			for err == nil && quiet && missing {
				if all, missing, err = p.attachNext(ctx, tx, last, true); err == nil {
					_, quiet, _ = all.next(last, p.PartitionRows)
				}
			}
			return err
		})
		if _, busy := errors.AsType[*inTheWay](err); err != nil && !busy {
			return all, err
		}
	}
	for missing {
		err := p.change(ctx, func(tx pgx.Tx) (err error) {
			all, missing, err = p.attachNext(ctx, tx, last, false)
			return err
		})
		switch {
		case pg.FailedWith(err, pg.LockNotAvailable, pg.DeadlockDetected): // a transaction writes to the default partition
			return all, nil
		case err != nil:
			return all, err
		}
	}
	return all, nil
}

// attachNext makes the next partition and reports whether another one is missing.
// One that has to be close ahead of the last position is left out until no transaction
// writes, or positions have run past the end of the last one.
func (p *pass) attachNext(ctx context.Context, tx pgx.Tx, last int64, still bool) (all partitions, more bool, err error) {
	if all, err = listPartitions(ctx, tx, p.base.Quoted); err != nil {
		return all, false, err
	}
	low, quiet, missing := all.next(last, p.PartitionRows)
	switch {
	case !missing, quiet && !still && low > last:
		return all, false, nil
	case still:
		low = max(low, last+1)
	case quiet:
		low = clearOf(last, p.PartitionRows)
	}
	high := low + p.PartitionRows
	if _, err = tx.Exec(ctx, attachPartition(p.base.Name, low, high), pgx.QueryExecModeSimpleProtocol); err != nil {
		return all, false, err
	}
	p.base.Log.InfoContext(ctx, "made a partition of the outbox", "table", p.base.Table, "from", low, "to", high)
	all.ranges = append(all.ranges, partition{name: partitionName(p.base.Name, low), low: low, high: high})
	_, _, more = all.next(last, p.PartitionRows)
	return all, more, nil
}

// unneeded returns partitions that may be dropped, looking at them without a lock.
// One of which the rows are all dated in the future is as old as the next that says
// more.
func (p *pass) unneeded(ctx context.Context, ranges []partition, last int64) (free []partition, err error) {
	var undated []partition
	for i, blocked := 0, 0; i < len(ranges) && ranges[i].high <= last && blocked < blockedMost; i++ {
		young, ahead, err := p.ages(ctx, ranges[i])
		switch {
		case err != nil:
			return nil, err
		case young:
			return free, nil
		case ahead:
			undated = append(undated, ranges[i])
			continue
		}
		for _, part := range append(undated, ranges[i]) {
			covered, err := p.covered(ctx, part)
			if err != nil {
				return nil, err
			}
			if covered {
				free = append(free, part)
			} else {
				blocked++
			}
		}
		undated = nil
		if len(free) >= droppedMost && !p.DryRun {
			break
		}
	}
	return free, nil
}

// ages looks at how old a partition is.
func (p *pass) ages(ctx context.Context, part partition) (young, ahead bool, err error) {
	err = p.read(ctx, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, sqltext.Fill(agesSQL, sqltext.Names{"table": part.name.Sanitize()}), p.Keep.Seconds()).Scan(&young, &ahead)
	})
	return young, ahead, ifGone(err)
}

// covered reports whether all rows of a partition are.
func (p *pass) covered(ctx context.Context, part partition) (covered bool, err error) {
	err = p.read(ctx, func(tx pgx.Tx) (err error) {
		covered, err = p.coveredIn(ctx, tx, part)
		return err
	})
	return covered, ifGone(err)
}

// coveredIn is covered in a transaction.
func (p *pass) coveredIn(ctx context.Context, tx pgx.Tx, part partition) (bool, error) {
	rows, err := tx.Query(ctx, sqltext.Fill(uncoveredSQL, sqltext.Names{"table": part.name.Sanitize()}), coverParams(p.covers)...)
	if err != nil {
		return false, err
	}
	err = p.hold(rows)
	return rows.CommandTag().RowsAffected() == 0, err
}

// ifGone makes an error of a partition that another process has dropped meanwhile
// a reason to give up.
func ifGone(err error) error {
	if pg.FailedWith(err, pg.UndefinedTable) {
		return errBusy
	}
	return err
}

// drop drops partitions, but those of which a row has become visible meanwhile. All
// that wait go under one lock, so that publishers wait once for all.
func (p *pass) drop(ctx context.Context, parts []partition) error {
	if time.Now().Before(p.unlocked) {
		p.result.Waiting, p.result.InTheWay = len(parts), "publishers have just waited for a lock, and are left alone for a while"
		return nil
	}
	var dropped []partition
	began := time.Now()
	err := p.exclusively(ctx, "ACCESS EXCLUSIVE", func(tx pgx.Tx) error {
		dropped = nil
		for _, part := range parts {
			gone, err := p.dropIn(ctx, tx, part)
			if err != nil {
				return err
			}
			if gone {
				dropped = append(dropped, part)
			}
		}
		return nil
	})
	if way, ok := errors.AsType[*inTheWay](err); ok {
		p.result.Waiting, p.result.InTheWay = len(parts), way.text
		return nil
	}
	if err != nil {
		return ifGone(err)
	}
	for _, part := range dropped {
		p.base.Log.InfoContext(ctx, "dropped a partition of the outbox that every route has settled", "table", p.base.Table,
			"from", part.low, "to", part.high, "took", time.Since(began).Round(time.Millisecond))
	}
	p.result.Partitions, p.result.More = len(dropped), len(dropped) > 0
	return nil
}

// dropIn drops a partition of a table that is locked. It does not wait for a lock on the
// partition, because all publishers wait by now: one that is being read directly,
// or vacuumed, is left for later.
func (p *pass) dropIn(ctx context.Context, tx pgx.Tx, part partition) (gone bool, err error) {
	table := part.name.Sanitize()
	err = pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "LOCK TABLE "+table+" IN ACCESS EXCLUSIVE MODE NOWAIT", pgx.QueryExecModeSimpleProtocol); err != nil {
			return err
		}
		covered, err := p.coveredIn(ctx, tx, part)
		if err != nil || !covered {
			return err
		}
		_, err = tx.Exec(ctx, "DROP TABLE "+table, pgx.QueryExecModeSimpleProtocol)
		gone = err == nil
		return err
	})
	if pg.FailedWith(err, pg.LockNotAvailable) {
		return false, nil
	}
	return gone, err
}
