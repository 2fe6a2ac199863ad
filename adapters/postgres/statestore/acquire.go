package statestore

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/state"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
)

const (
	// routeKey, a route and keyEnd make the key of the advisory lock of a route.
	routeKey = `hashtextextended('outrider route ' || {schema} || ' ' || `

	// routeLock serialises the acquirers of a route, routesLock those of each of the routes $1, which are sorted.
	routeLock  = `SELECT pg_advisory_xact_lock(` + routeKey + `$1::text` + keyEnd + `)`
	routesLock = `SELECT pg_advisory_xact_lock(` + routeKey + `r.route` + keyEnd + `) FROM unnest($1::text[]) AS r(route)`

	pausedRoutesSQL = `SELECT u.route FROM outrider_pause u WHERE u.route = ANY($1::text[]) AND md5(u.address) = md5('') AND u.address = ''`

	// createLanesSQL begins epochs at the microsecond: those of a route that was
	// forgotten and comes back must not meet those of its former life.
	createLanesSQL = createLanes + `SELECT $1, unnest($2::smallint[]), ` + firstEpoch + onceCreated

	// createUnpausedSQL creates the rows ($1, $2), unless their route is paused.
	createUnpausedSQL = createLanes + `SELECT w.route, w.slot, ` + firstEpoch + ` FROM unnest($1::text[], $2::smallint[]) AS w(route, slot)
WHERE w.route NOT IN (` + pausedRoutesSQL + `)` + onceCreated

	createLanes = `
INSERT INTO outrider_cursor (route, slot, epoch) `

	firstEpoch = `(extract(epoch FROM clock_timestamp()) * 1000000)::bigint`

	onceCreated = ` ON CONFLICT (route, slot) DO NOTHING`

	// lockFreeSQL locks those of the lanes ($1, $2) that $3 may acquire, but for lanes of owners whose connection was lost. A settle that is
	// under way changes them no more then. PostgreSQL 18.0 and 18.1 miss rows otherwise: where an UPDATE reads a materialized WITH by a
	// nested loop and finds that a row was changed meanwhile, it does not come back to the rows of the WITH that follow. Those lanes would
	// stay with their owner until the next attempt.
	lockFreeSQL = lockLanes + `
WHERE c.owner IS NULL OR c.owner = $3 OR NOT EXISTS (SELECT FROM outrider_instance i WHERE i.id = c.owner AND i.lease_until > clock_timestamp())
` + inOrder

	// acquireSQL takes those of the lanes ($1, $2) that have no living owner: no owner, this instance, an owner
	// whose lease is over or who has left no row, or one whose advisory lock is
	// free. The query for the lock is shared, so that two who ask at once do not
	// take each other for the owner. Epochs follow the clock, so that none comes
	// twice in a store that was put back to an earlier state. Of more than $3 of a route our own go first, then
	// those without an owner.
	acquireSQL = `
WITH wanted AS MATERIALIZED (
    SELECT c.route, c.slot, c.owner, w.most FROM unnest($1::text[], $2::smallint[], $3::integer[]) AS w(route, slot, most)
    JOIN outrider_cursor c ON c.route = w.route AND c.slot = w.slot
    WHERE w.route NOT IN (` + pausedRoutesSQL + `)
), other AS MATERIALIZED (
    SELECT DISTINCT owner FROM wanted WHERE owner <> $4
), dead AS MATERIALIZED (
    SELECT o.owner FROM other o LEFT JOIN outrider_instance i ON i.id = o.owner
    WHERE i.id IS NULL OR i.lease_until <= clock_timestamp()
       OR pg_try_advisory_xact_lock_shared(` + instanceKey + `o.owner` + keyEnd + `)
), free AS MATERIALIZED (
    SELECT w.route, w.slot, w.most,
        row_number() OVER (PARTITION BY w.route ORDER BY w.owner = $4 DESC NULLS LAST, w.owner IS NULL DESC, w.slot) AS place
    FROM wanted w WHERE w.owner IS NULL OR w.owner = $4 OR w.owner IN (SELECT d.owner FROM dead d)
)
UPDATE outrider_cursor AS c SET owner = $4, epoch = greatest(c.epoch + 1, ` + firstEpoch + `), acquired_at = clock_timestamp()
FROM free WHERE free.place <= free.most AND c.route = free.route AND c.slot = free.slot
RETURNING c.route, c.slot, c.updated_at IS NULL, c.position, c.snapshot, c.window_snapshot, c.paged, c.base,
    c.beyond, c.next_seq, c.epoch, c.revision, c.cluster, c.source, c.anchor, c.commands`

	// bindRoutesSQL is bindSQL for those of the routes ($1, $2, $3) of which $4 has lanes. It returns the lanes that it has bound.
	bindRoutesSQL = `
WITH known AS MATERIALIZED (
    SELECT r.route, r.cluster, r.source FROM unnest($1::text[], $2::text[], $3::text[]) AS r(route, cluster, source)
    WHERE EXISTS (SELECT FROM outrider_cursor m WHERE m.route = r.route AND m.source = '' AND m.owner = $4)
      AND NOT EXISTS (SELECT FROM outrider_cursor o
        WHERE o.route = r.route AND (o.source <> '' OR o.updated_at IS NOT NULL)
          AND (o.cluster <> r.cluster OR r.source <> '' AND o.source NOT IN ('', r.source)))
)
UPDATE outrider_cursor c SET cluster = k.cluster, source = k.source FROM known k WHERE c.route = k.route AND c.source = ''
RETURNING c.route, c.slot`

	// parkingSQL are those of the routes of which messages are parked that are not dead.
	parkingSQL = `
SELECT r.route FROM unnest($1::text[]) AS r(route)
CROSS JOIN LATERAL (SELECT FROM outrider_parked p WHERE p.route = r.route AND p.status <> 'dead' LIMIT 1) AS any_parked`

	// otherTable finds a cursor of a route that is another table's.
	otherTable = ` FROM outrider_cursor o
WHERE o.route = $1 AND (o.source <> '' OR o.updated_at IS NOT NULL)
  AND (o.cluster <> $2::text OR $3::text <> '' AND o.source NOT IN ('', $3::text))`

	otherTableSQL = `SELECT o.cluster, o.source` + otherTable + ` ORDER BY o.slot LIMIT 1`

	bindSQL = `UPDATE outrider_cursor c SET cluster = $2, source = $3 WHERE c.route = $1 AND c.source = '' AND NOT EXISTS (SELECT` + otherTable + `)`
)

// Acquire makes the instance the owner of the route's rows that have no living
// owner, of at most so many, and raises their epoch. Rows that it owns already
// are acquired again.
func (s *Store) Acquire(ctx context.Context, instance, route string, slots []int, most int) ([]adapters.LaneState, error) {
	taken, err := s.AcquireRoutes(ctx, instance, []adapters.Wanted{{Route: route, Slots: slots, Most: most}})
	if err == nil && taken[route].Paused {
		err = adapters.ErrPaused
	}
	return taken[route].Lanes, err
}

// AcquireRoutes implements [adapters.RoutesAcquirer].
func (s *Store) AcquireRoutes(ctx context.Context, instance string, wanted []adapters.Wanted) (taken map[string]adapters.Acquired, err error) {
	for _, w := range wanted {
		if err := s.MayAcquire(instance, w.Route, w.Slots); err != nil {
			return nil, err
		}
	}
	wanted = slices.SortedFunc(slices.Values(wanted), func(a, b adapters.Wanted) int { return cmp.Compare(a.Route, b.Route) })
	err = pg.RetryDeadlock(func() error {
		taken, err = s.acquire(ctx, instance, wanted)
		return err
	})
	what := fmt.Sprintf("acquire lanes of %d routes", len(wanted))
	if len(wanted) == 1 {
		what = fmt.Sprintf("acquire lanes of route %q", wanted[0].Route)
	}
	return taken, stateError(what, err)
}

// acquire is one batch, which is a transaction: each of hundreds of routes would wait for round trips, and for the disk.
func (s *Store) acquire(ctx context.Context, instance string, wanted []adapters.Wanted) (map[string]adapters.Acquired, error) {
	var routes, of, named, clusters, sources []string
	var slots []int16
	var most []int32
	taken := make(map[string]adapters.Acquired, len(wanted))
	for _, w := range wanted {
		routes, taken[w.Route] = append(routes, w.Route), adapters.Acquired{}
		for _, slot := range w.Slots {
			of, slots, most = append(of, w.Route), append(slots, int16(slot)), append(most, int32(w.Most))
		}
		if w.Table.Name != "" {
			named, clusters, sources = append(named, w.Route), append(clusters, w.Table.Cluster), append(sources, w.Table.Name)
		}
	}
	var lanes []adapters.LaneState
	bound := map[adapters.LaneRef]bool{}
	batch := &pgx.Batch{}
	batch.Queue(routesLock, routes)
	batch.Queue(pausedRoutesSQL, routes).Query(eachRoute(taken, func(a *adapters.Acquired) { a.Paused = true }))
	batch.Queue(createUnpausedSQL, of, slots)
	batch.Queue(lockFreeSQL, of, slots, instance)
	batch.Queue(acquireSQL, of, slots, most, instance).Query(func(rows pgx.Rows) (err error) {
		lanes, err = collectStates(rows)
		return err
	})
	batch.Queue(bindRoutesSQL, named, clusters, sources, instance).Query(func(rows pgx.Rows) error { return lanesIn(rows, bound) })
	batch.Queue(parkingSQL, routes).Query(eachRoute(taken, func(a *adapters.Acquired) { a.Parking = true }))
	if err := s.pool.SendBatch(ctx, batch).Close(); err != nil {
		return nil, err
	}
	tables := map[string]adapters.Table{}
	for _, w := range wanted {
		tables[w.Route] = w.Table
	}
	for i := range lanes {
		l := &lanes[i]
		if bound[l.LaneRef] {
			l.Table.Cluster, l.Table.Name = tables[l.Route].Cluster, tables[l.Route].Name
		}
		a := taken[l.Route]
		a.Lanes = append(a.Lanes, *l)
		taken[l.Route] = a
	}
	return taken, nil
}

// eachRoute reads the names of routes, and changes what is known of each.
func eachRoute(taken map[string]adapters.Acquired, change func(*adapters.Acquired)) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		var route string
		_, err := pgx.ForEachRow(rows, []any{&route}, func() error {
			a := taken[route]
			change(&a)
			taken[route] = a
			return nil
		})
		return err
	}
}

// collectStates reads what acquireSQL returns.
func collectStates(rows pgx.Rows) ([]adapters.LaneState, error) {
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (l adapters.LaneState, err error) {
		c := &l.Cursor
		var anchor string
		err = row.Scan(&l.Route, &l.Slot, &l.New, &c.Position, &c.Snapshot, &c.Window, &c.Paged, &c.Base,
			&l.Beyond, &l.NextSeq, &l.Epoch, &l.Revision, &l.Table.Cluster, &l.Table.Name, &anchor, &l.Commands)
		if err == nil {
			err = state.ReadAnchorText(anchor, c, &l.Table)
		}
		return l, err
	})
}

// Bind implements [adapters.StateStore].
func (s *Store) Bind(ctx context.Context, route string, table adapters.Table) error {
	found, other := false, &adapters.OtherTable{Source: table}
	err := pg.RetryDeadlock(func() error {
		batch := &pgx.Batch{} // as in acquire
		batch.Queue(routeLock, route)
		batch.Queue(otherTableSQL, route, table.Cluster, table.Name).Query(func(rows pgx.Rows) error {
			_, err := pgx.ForEachRow(rows, []any{&other.Cursor.Cluster, &other.Cursor.Name}, func() error {
				found = true
				return nil
			})
			return err
		})
		batch.Queue(bindSQL, route, table.Cluster, table.Name)
		return s.pool.SendBatch(ctx, batch).Close()
	})
	switch {
	case err != nil:
		return stateError(fmt.Sprintf("say which table route %q reads", route), err)
	case found:
		return other
	}
	return nil
}
