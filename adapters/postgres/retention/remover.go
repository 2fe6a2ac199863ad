package retention

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/sqltext"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
	"github.com/outriderhq/outrider/adapters/postgres/internal/reader"
)

// Retention, in short transactions of its own: see rows.go and
// partitions.go. cover.go decides which rows may go.

const (
	// retentionLock lets one process at a time remove rows of a table. It ends
	// with the transaction, so it need not be released.
	retentionLock = `SELECT pg_try_advisory_xact_lock(hashtextextended('outrider retention ' || $1, 0))`

	// retentionSettings bound a transaction. Row security would hide rows, and
	// what is hidden would be taken for delivered. The rest pins plans, as
	// those of a fetch do.
	retentionSettings = pg.PinTransaction + `
SET LOCAL statement_timeout = '10s';
SET LOCAL row_security = off;
SET LOCAL jit = off;
SET LOCAL enable_seqscan = off;
SET LOCAL enable_bitmapscan = off;
SET LOCAL enable_sort = off;
SET LOCAL enable_hashjoin = off;
SET LOCAL enable_mergejoin = off;
SET LOCAL max_parallel_workers_per_gather = 0;
SET LOCAL lock_timeout = `

	// lockWait is how long a step waits for a lock. Publishers wait
	// behind it, so it is short: what does not succeed is tried at the next pass.
	lockWait = "'100ms'"

	// sweepEvery is how often removing begins again at the first row instead of
	// where it stopped, to find rows that were committed or settled late.
	// In between, what is dead but not yet vacuumed is not walked again.
	sweepEvery = 10 * time.Minute

	// countEvery is how long the step of a count may take until the next one begins at the first row.
	countEvery = 10 * time.Second
)

// Remover removes the rows of one outbox table that every route has settled. It implements [adapters.Retainer].
type Remover struct {
	base   *reader.Reader
	grants func(adapters.RetentionMode) pg.Grants // that a role needs
	floor  atomic.Pointer[floor]                  // nil: none is known

	mu    sync.Mutex // held by Retain; guards the rest
	swept sweep
	dry   sweep // of a count that removes nothing

	candidate candidate // the next floor
	unlocked  time.Time // until then publishers are not made to wait again

	// ahead are cursors that were ahead of the database: it was restored. It
	// may catch up with them, and they mean nothing all the same.
	ahead map[lostCursor]bool
}

// New returns the remover of the table that base reads, and what a role needs for each mode.
func New(base *reader.Reader, grants func(adapters.RetentionMode) pg.Grants) *Remover {
	return &Remover{base: base, grants: grants}
}

// sweep is how far a look through the rows is, from the first one on.
type sweep struct {
	marks [adapters.Slots]int64
	begun time.Time
	old   [adapters.Slots]int64 // the highest position known to be old enough
}

// lostCursor is a cursor of a slot of a route.
type lostCursor struct {
	route  string
	slot   int
	cursor adapters.Cursor
}

// CheckRetention implements [adapters.Retainer].
func (rm *Remover) CheckRetention(ctx context.Context, r adapters.Retention) error {
	const q = `
SELECT current_user, c.relkind = 'p', coalesce(pg_get_partkeydef(c.oid), ''),
       pg_has_role(c.relowner, 'USAGE'), has_schema_privilege(c.relnamespace, 'CREATE'), n.nspname, o.rolname
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_roles o ON o.oid = c.relowner
WHERE c.oid = $1::text::regclass`
	if err := rm.base.Find(ctx); err != nil {
		return rm.base.Explain("check retention", err)
	}
	var role, key, schema, owner string
	var partitioned, owns, creates bool
	err := rm.base.Pool.QueryRow(ctx, q, rm.base.Quoted).Scan(&role, &partitioned, &key, &owns, &creates, &schema, &owner)
	if err != nil {
		return rm.base.Explain("check retention", err)
	}
	role = pgx.Identifier{role}.Sanitize()
	var problems []error
	add := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	switch {
	case r.Mode == adapters.RetainRows:
		grants := rm.grants(r.Mode)
		problems, err = grants.Permitted(ctx, rm.base.Pool)
		problems = append(problems, err)
		if _, operator, operatorErr := grants.OperatorOnly(ctx, rm.base.Pool); operatorErr == nil && operator {
			problems = append(problems, adapters.ErrOperatorsLogin)
		}
	case r.Mode != adapters.RetainPartitions:
		add("retention mode %q is neither delete nor partitions", r.Mode)
	case !partitioned:
		add(`it has no partitions, so retention can only be of mode delete; partitions need a table that "outrider init" created with them`)
	case pg.PlainExpression(key) != `rangeposition` && pg.PlainExpression(key) != `range"position"`:
		add(`it is partitioned by %s; retention needs RANGE (position), or mode: delete`, key)
	default:
		if !owns {
			add("%w, and role %s is not: GRANT %s TO %s, or connect as the owner", adapters.ErrOwnerOnly, role, pgx.Identifier{owner}.Sanitize(), role)
		}
		if !creates {
			add("role %s may not make its partitions: GRANT CREATE ON SCHEMA %s TO %s", role, pgx.Identifier{schema}.Sanitize(), role)
		}
	}
	return rm.base.Explain("check retention", errors.Join(problems...))
}

// Retain implements [adapters.Retainer].
func (rm *Remover) Retain(ctx context.Context, r adapters.Retention, routes []adapters.RouteCursors) (adapters.Retained, error) {
	rm.mu.Lock()
	defer rm.mu.Unlock()
	if r.Batch <= 0 {
		r.Batch = adapters.DefaultRetainBatch
	}
	if r.PartitionRows <= 0 {
		r.PartitionRows = adapters.DefaultPartitionRows
	}
	covers, err := meetAll(routes)
	if err == nil {
		err = rm.base.Find(ctx)
	}
	if err == nil {
		err = rm.checkAhead(ctx, routes)
	}
	if err != nil {
		return adapters.Retained{}, rm.base.Explain("retention", err)
	}
	p := pass{Remover: rm, Retention: r, routes: routes, covers: covers}
	if r.Mode == adapters.RetainPartitions {
		err = p.partitions(ctx)
	} else {
		err = p.rows(ctx, rm.base.Quoted)
		if err == nil && !p.result.More {
			err = p.look(ctx, p.sweep().marks)
		}
	}
	if r.DryRun && !p.result.More {
		rm.dry = sweep{} // the next count begins at the first row
	}
	if gaveUp(err) {
		p.result.Busy, err = true, nil
	}
	return p.result, rm.base.Explain("retention", err)
}

// checkAhead refuses to remove anything while a cursor is ahead of the database,
// or was, and has not been repositioned.
func (rm *Remover) checkAhead(ctx context.Context, routes []adapters.RouteCursors) error {
	var xmax uint64
	var last int64
	q := `SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint, (` + reader.LastPositionSQL + `)`
	if err := rm.base.Pool.QueryRow(ctx, q, rm.base.Quoted).Scan(&xmax, &last); err != nil {
		return err
	}
	found := map[lostCursor]bool{}
	for i := range routes {
		for slot, c := range routes[i].Cursors {
			if c == nil {
				continue
			}
			key := lostCursor{routes[i].Route, slot, *c}
			ahead := rm.ahead[key]
			if !ahead {
				var err error
				if ahead, err = rm.isAhead(ctx, c, xmax, last); err != nil {
					return err
				}
			}
			if ahead {
				found[key] = true
			}
		}
	}
	rm.ahead = found
	for key := range found {
		return fmt.Errorf("the database is behind the cursor of route %q, because it was restored: nothing is removed until `outrider rebase %s` has repositioned it",
			key.route, key.route)
	}
	return nil
}

// isAhead reports whether a cursor has seen more than transactions below xmax and positions up to last, or another row at its own.
func (rm *Remover) isAhead(ctx context.Context, c *adapters.Cursor, xmax uint64, last int64) (bool, error) {
	newest, err := reader.NewestSnapshot(*c)
	if err != nil {
		return false, err
	}
	further := c.Position > last && c.Position != 0
	if newest.Xmax > xmax || further && c.Anchor.IsZero() {
		return true, nil
	}
	there, err := rm.base.AnchorAt(ctx, c) // a missing row says nothing here: rows may go that were at a cursor
	return !there.IsZero() && !there.Matches(c.Anchor) || there.IsZero() && further, err
}

// pass is one step of retention.
type pass struct {
	*Remover
	adapters.Retention
	routes []adapters.RouteCursors
	covers [adapters.Slots]reader.Cover
	result adapters.Retained
}

// sweep returns the one that a pass continues with. A count has to continue at once: one that was given up begins again.
func (p *pass) sweep() *sweep {
	s, most := &p.swept, sweepEvery
	if p.DryRun {
		s, most = &p.dry, countEvery
	}
	if time.Since(s.begun) > most {
		s.begun, s.marks = time.Now(), [adapters.Slots]int64{}
	}
	return s
}

// errBusy ends a step while another process removes rows.
var errBusy = errors.New("another process removes rows of the table")

// gaveUp reports whether a step ended for the sake of others.
func gaveUp(err error) bool {
	return errors.Is(err, errBusy) || pg.FailedWith(err, pg.LockNotAvailable, pg.DeadlockDetected)
}

// change runs f in a bounded transaction that no other process's retention of
// the table gets in between.
func (p *pass) change(ctx context.Context, f func(pgx.Tx) error) error {
	return p.read(ctx, func(tx pgx.Tx) error {
		var ours bool
		if err := tx.QueryRow(ctx, retentionLock, p.base.Quoted).Scan(&ours); err != nil {
			return err
		}
		if !ours {
			return errBusy
		}
		return f(tx)
	})
}

// placeholders of a cover's arrays: slot, position, snapshot, base.
const coverArrays = `unnest($1::smallint[], $2::bigint[], $3::pg_snapshot[], $4::bigint[]) AS r(slot, pos, snap, base)`

// look finds the oldest rows that are left behind the marks, and says who holds
// them back.
func (p *pass) look(ctx context.Context, marks [adapters.Slots]int64) error {
	const q = `
SELECT r.slot, o.position, o.xid::text::bigint, ` + ageSQL + `
FROM unnest($1::smallint[], $2::bigint[]) AS r(slot, mark)
CROSS JOIN LATERAL (
    SELECT o.position, o.xid, o.created_at FROM {table} o
    WHERE o.slot = r.slot AND o.position > r.mark
    ORDER BY o.slot, o.position LIMIT 1
) o`
	slots := make([]int16, adapters.Slots)
	for i := range slots {
		slots[i] = int16(i)
	}
	return p.read(ctx, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, sqltext.Fill(q, sqltext.Names{"table": p.base.Quoted}), slots, marks[:])
		if err != nil {
			return err
		}
		return p.hold(rows)
	})
}

// read runs f in a bounded transaction.
func (p *pass) read(ctx context.Context, f func(pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, p.base.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, retentionSettings+lockWait, pgx.QueryExecModeSimpleProtocol); err != nil {
			return err
		}
		return f(tx)
	})
}

// hold notes the oldest of rows that are left, and which routes keep them.
func (p *pass) hold(rows pgx.Rows) error {
	var slot int
	var position int64
	var xid uint64
	var age float64
	_, err := pgx.ForEachRow(rows, []any{&slot, &position, &xid, &age}, func() error {
		old := time.Duration(age * float64(time.Second))
		if by := -old; by > adapters.DatedAheadLeast && by > p.result.DatedAhead.By {
			p.result.DatedAhead = adapters.DatedAhead{Slot: slot, Position: position, By: by,
				Fix: fmt.Sprintf("UPDATE %s SET created_at = clock_timestamp() WHERE slot = %d AND position = %d", p.base.Quoted, slot, position)}
		}
		p.result.Oldest = max(p.result.Oldest, old)
		since := old - p.Keep
		if since <= 0 {
			return nil
		}
		for i := range p.routes {
			c, err := reader.CoverOf(p.routes[i].Cursors[slot])
			if err != nil || c.Has(position, xid) {
				continue // the error was reported when the covers were made
			}
			if p.result.Held == nil {
				p.result.Held = map[string]time.Duration{}
			}
			name := p.routes[i].Route
			p.result.Held[name] = max(p.result.Held[name], since)
		}
		return nil
	})
	return err
}
