package statestore

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/state"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
	"github.com/outriderhq/outrider/adapters/postgres/internal/wire"
	"github.com/outriderhq/outrider/internal/failpoint"
	"github.com/outriderhq/outrider/internal/shorten"
)

const (
	// settleSQL moves the cursors whose epoch is the given one, and that were not put
	// back to an earlier state, and returns them. It is all of a settle without parked rows: one statement for all
	// lanes, its own transaction. Arrays of different lengths do not fit into
	// one array, so each lane's positions beyond the cursor come as a literal.
	settleSQL = `
UPDATE outrider_cursor AS c ` + setCursor + `
FROM ` + settledLanes + `
WHERE c.route = s.route AND c.slot = s.slot AND c.epoch = s.epoch AND c.revision >= s.confirmed
RETURNING c.route, c.slot, c.ctid`

	setCursor = `
SET position = s.position, snapshot = s.snapshot, window_snapshot = s.window_snapshot, paged = s.paged,
    base = s.base, beyond = s.beyond::bigint[], next_seq = s.next_seq, cluster = s.cluster,
    source = s.source, anchor = s.anchor, revision = s.revision, updated_at = clock_timestamp()`

	// settledLanes are the parameters of a settle, see settleArgs.
	settledLanes = `unnest($1::text[], $2::smallint[], $3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::bigint[],
        $8::bigint[], $9::text[], $10::bigint[], $11::text[], $12::text[], $13::text[], $14::bigint[], $15::bigint[])
    AS s(route, slot, epoch, position, snapshot, window_snapshot, paged, base, beyond, next_seq, cluster, source,
        anchor, revision, confirmed)`

	unparkSQL = `
DELETE FROM outrider_parked AS p
USING unnest($1::text[], $2::smallint[], $3::bigint[]) AS u(route, slot, seq)
WHERE p.route = u.route AND p.slot = u.slot AND p.seq = u.seq`

	parkSQL = `
INSERT INTO outrider_parked (route, slot, seq, message_group, status, attempts, next_attempt_at, last_error,
    event_id, event_type, position, metadata, payload, tries, failure)
SELECT k.route, k.slot, k.seq, nullif(k.message_group, ''), k.status, k.attempts, k.next_attempt_at, k.last_error,
    k.event_id, k.event_type, k.position, k.metadata::jsonb, k.payload, k.tries, k.failure
FROM unnest($1::text[], $2::smallint[], $3::bigint[], $4::text[], $5::text[], $6::integer[], $7::timestamptz[],
        $8::text[], $9::text[], $10::text[], $11::bigint[], $12::text[], $13::bytea[], $17::integer[],
        $18::text[], $19::bigint[])
    AS k(route, slot, seq, message_group, status, attempts, next_attempt_at, last_error,
        event_id, event_type, position, metadata, payload, was, tries, failure)
JOIN unnest($14::text[], $15::smallint[], $16::bigint[]) AS l(route, slot, stored) ON l.route = k.route AND l.slot = k.slot
WHERE (k.seq >= l.stored
   OR EXISTS (SELECT FROM outrider_parked AS p WHERE p.route = k.route AND p.slot = k.slot AND p.seq = k.seq))
  AND (k.was = 0 OR NOT EXISTS (SELECT FROM outrider_parked AS p WHERE p.route = k.route AND p.slot = k.slot AND p.seq = k.seq
    AND p.attempts = 0 AND p.status = 'retrying'))
ON CONFLICT (route, slot, seq) DO UPDATE SET message_group = EXCLUDED.message_group, status = EXCLUDED.status,
    attempts = EXCLUDED.attempts, next_attempt_at = EXCLUDED.next_attempt_at, last_error = EXCLUDED.last_error,
    event_id = EXCLUDED.event_id, event_type = EXCLUDED.event_type, position = EXCLUDED.position,
    metadata = EXCLUDED.metadata, payload = EXCLUDED.payload, tries = EXCLUDED.tries, failure = EXCLUDED.failure`
)

// stateQuerier is a pool or a transaction.
type stateQuerier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// settleQuerier is one that also sends batches.
type settleQuerier interface {
	stateQuerier
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// Settle writes all settlements in one transaction and returns the lanes whose
// epoch has moved on; nothing of those is written.
func (s *Store) Settle(ctx context.Context, settlements []adapters.Settlement) ([]adapters.LaneRef, error) {
	if len(settlements) == 0 {
		return nil, nil
	}
	sorted, err := state.SortSettlements(settlements)
	if err != nil {
		return nil, stateError("settle", err)
	}
	var fenced []adapters.LaneRef
	err = pg.RetryDeadlock(func() error {
		fenced, err = s.settle(ctx, sorted)
		return err
	})
	if err != nil {
		return nil, stateError("settle", err)
	}
	return fenced, nil
}

func (s *Store) settle(ctx context.Context, settlements []adapters.Settlement) (fenced []adapters.LaneRef, err error) {
	book := s.progress.Load()
	writes := book.writes(settlements)
	if !parksAny(settlements) {
		alive, err := s.settleAlone(ctx, settlements, book, writes)
		return fencedLanes(settlements, alive), err
	}
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		// The cursors first: their rows are the fence, and stay locked until
		// the parked rows are written too.
		alive, err := s.settleCursors(ctx, tx, settlements)
		if err != nil {
			return err
		}
		fenced = fencedLanes(settlements, alive)
		if err := settleParked(ctx, tx, settlements, alive); err != nil {
			return err
		}
		if err := settleProgress(ctx, tx, book, writes); err != nil {
			return err
		}
		failpoint.Hit(failpoint.InSettle)
		return nil
	})
	return fenced, err
}

// settleAlone settles without parked rows: in one statement or, with rows in tables of progress, in one batch, which is a
// transaction.
func (s *Store) settleAlone(ctx context.Context, settlements []adapters.Settlement, book *progressBook, writes []progressWrite) (map[adapters.LaneRef]bool, error) {
	if len(writes) == 0 {
		return s.settleCursors(ctx, s.pool, settlements)
	}
	batch, alive := &pgx.Batch{}, make(map[adapters.LaneRef]bool, len(settlements))
	s.queueSettle(batch, settlements, alive)
	book.queue(batch, writes)
	if err := s.pool.SendBatch(ctx, batch).Close(); err != nil || len(alive) == len(settlements) {
		return alive, err
	}
	return alive, pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if err := fold(ctx, tx, settlements, alive); err != nil {
			return err
		}
		return settleProgress(ctx, tx, book, writes)
	})
}

// settleProgress writes rows in tables of progress, in the transaction that has settled.
func settleProgress(ctx context.Context, tx pgx.Tx, book *progressBook, writes []progressWrite) error {
	if len(writes) == 0 {
		return nil
	}
	batch := &pgx.Batch{}
	book.queue(batch, writes)
	return tx.SendBatch(ctx, batch).Close()
}

func parksAny(settlements []adapters.Settlement) bool { return slices.ContainsFunc(settlements, parks) }

func parks(t adapters.Settlement) bool { return len(t.Park)+len(t.Unpark) > 0 }

// settleCursors returns the lanes that were not fenced.
func (s *Store) settleCursors(ctx context.Context, q settleQuerier, settlements []adapters.Settlement) (map[adapters.LaneRef]bool, error) {
	alive := make(map[adapters.LaneRef]bool, len(settlements))
	var err error
	if s.aside.on() {
		batch := &pgx.Batch{}
		s.queueSettle(batch, settlements, alive)
		err = q.SendBatch(ctx, batch).Close()
	} else {
		var rows pgx.Rows
		if rows, err = q.Query(ctx, settleSQL, settleArgs(settlements)...); err == nil {
			err = s.aside.read(rows, alive)
		}
	}
	if err != nil {
		return nil, err
	}
	return alive, fold(ctx, q, settlements, alive)
}

// queueSettle adds the statement that settles nearly always all lanes. Those that it does not are left to [fold].
func (s *Store) queueSettle(batch *pgx.Batch, settlements []adapters.Settlement, alive map[adapters.LaneRef]bool) {
	if !s.aside.on() {
		batch.Queue(settleSQL, settleArgs(settlements)...).Query(func(rows pgx.Rows) error { return s.aside.read(rows, alive) })
		return
	}
	s.aside.used.Store(true)
	// Rows are parked under the lock on the cursor row, which keeps operators' commands away.
	if settlements = slices.DeleteFunc(slices.Clone(settlements), parks); len(settlements) > 0 {
		batch.Queue(byIndex)
		batch.Queue(asideSQL, settleArgs(settlements)...).Query(func(rows pgx.Rows) error { return lanesIn(rows, alive) })
	}
}

// fold settles the lanes that are not alive yet. Those that are not afterwards are fenced.
func fold(ctx context.Context, q settleQuerier, settlements []adapters.Settlement, alive map[adapters.LaneRef]bool) error {
	if len(alive) == len(settlements) {
		return nil
	}
	rest := slices.DeleteFunc(slices.Clone(settlements), func(t adapters.Settlement) bool { return alive[t.LaneRef] })
	batch, args := &pgx.Batch{}, settleArgs(rest)
	batch.Queue(byIndex)
	batch.Queue(lockSQL, args[:2]...)
	batch.Queue(foldSQL, args...).Query(func(rows pgx.Rows) error { return lanesIn(rows, alive) })
	return q.SendBatch(ctx, batch).Close()
}

// settleArgs are the parameters of settleSQL.
func settleArgs(settlements []adapters.Settlement) []any {
	n := len(settlements)
	routes, slots, epochs := make([]string, n), make([]int16, n), make([]int64, n)
	positions, paged, bases, seqs := make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n)
	snapshots, windows := make([]string, n), make([]string, n)
	beyond, clusters, sources, anchors := make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	revisions, confirmed := make([]int64, n), make([]int64, n)
	for i := range settlements {
		t := &settlements[i]
		routes[i], slots[i], epochs[i] = t.Route, int16(t.Slot), t.Epoch
		positions[i], paged[i], bases[i] = t.Cursor.Position, t.Cursor.Paged, t.Cursor.Base
		snapshots[i], windows[i] = t.Cursor.Snapshot, t.Cursor.Window
		beyond[i], seqs[i], clusters[i], sources[i] = wire.Numbers(t.Beyond), t.NextSeq, t.Table.Cluster, t.Table.Name
		anchors[i], revisions[i], confirmed[i] = state.AnchorText(t.Cursor, t.Table), t.Revision, t.Confirmed
	}
	return []any{routes, slots, epochs, positions, snapshots, windows, paged, bases,
		beyond, seqs, clusters, sources, anchors, revisions, confirmed}
}

// lanesIn adds the lanes that a result names to those alive.
func lanesIn(rows pgx.Rows, alive map[adapters.LaneRef]bool) error {
	var ref adapters.LaneRef
	_, err := pgx.ForEachRow(rows, []any{&ref.Route, &ref.Slot}, func() error {
		alive[ref] = true
		return nil
	})
	return err
}

func fencedLanes(settlements []adapters.Settlement, alive map[adapters.LaneRef]bool) (fenced []adapters.LaneRef) {
	for i := range settlements {
		if !alive[settlements[i].LaneRef] {
			fenced = append(fenced, settlements[i].LaneRef)
		}
	}
	return fenced
}

// partBytes bounds the payloads of one statement: it is encoded as a whole.
const partBytes = 4 << 20

// settleParked deletes and writes the parked rows of the lanes alive, in one
// round trip unless they are large. Unparked rows go first, so that a seq may be used again.
func settleParked(ctx context.Context, tx pgx.Tx, settlements []adapters.Settlement, alive map[adapters.LaneRef]bool) error {
	gone, lanes, parts := parkedParts(settlements, alive, pg.Highest(tx.Conn()))
	batch := &pgx.Batch{}
	if len(gone.seqs) > 0 {
		batch.Queue(unparkSQL, gone.routes, gone.slots, gone.seqs)
	}
	for i, kept := range parts {
		if i > 0 {
			if err := tx.SendBatch(ctx, batch).Close(); err != nil {
				return err
			}
			batch = &pgx.Batch{}
		}
		batch.Queue(parkSQL, kept.routes, kept.slots, kept.seqs, kept.groups, kept.statuses, kept.attempts, kept.dues,
			kept.errors, kept.ids, kept.types, kept.positions, kept.metadata, kept.payloads,
			lanes.routes, lanes.slots, lanes.seqs, kept.formers, kept.tries, kept.failures)
	}
	return tx.SendBatch(ctx, batch).Close()
}

// parkedParts are the keys of rows to delete, what was stored of each lane, and the rows to write, in parts for one statement each.
func parkedParts(settlements []adapters.Settlement, alive map[adapters.LaneRef]bool, highest rune) (gone, lanes parkedColumns, parts []*parkedColumns) {
	var kept *parkedColumns
	for i := range settlements {
		t := &settlements[i]
		if !alive[t.LaneRef] {
			continue
		}
		for _, seq := range t.Unpark {
			gone.addKey(t.LaneRef, seq)
		}
		for j := range t.Park {
			p := &t.Park[j]
			if kept == nil || kept.bytes+len(p.Payload) > partBytes {
				kept = &parkedColumns{highest: highest}
				parts = append(parts, kept)
			}
			kept.add(t.LaneRef, p)
		}
		lanes.addKey(t.LaneRef, t.Stored)
	}
	return gone, lanes, parts
}

// parkedColumns are the rows of a statement, column by column.
type parkedColumns struct {
	routes, groups, statuses, errors, ids, types, metadata, tries []string
	failures                                                      []*int64
	slots                                                         []int16
	seqs, positions                                               []int64
	attempts, formers                                             []int32 // formers: [adapters.Parked.Was]
	dues                                                          []*time.Time
	payloads                                                      [][]byte
	bytes                                                         int  // of payloads
	highest                                                       rune // of texts for people
}

func (c *parkedColumns) addKey(lane adapters.LaneRef, seq int64) {
	c.routes = append(c.routes, lane.Route)
	c.slots = append(c.slots, int16(lane.Slot))
	c.seqs = append(c.seqs, seq)
}

func (c *parkedColumns) add(lane adapters.LaneRef, p *adapters.Parked) {
	c.addKey(lane, p.Seq)
	k := state.ColumnsOf(lane.Route, p)
	c.groups = append(c.groups, k.Group)
	c.statuses = append(c.statuses, k.Status)
	c.attempts = append(c.attempts, int32(p.Attempts))
	c.formers = append(c.formers, int32(p.Was))
	c.dues = append(c.dues, k.Due)
	c.errors = append(c.errors, shorten.Storable(k.Error, c.highest))
	c.tries, c.failures = append(c.tries, shorten.Storable(k.Tries, c.highest)), append(c.failures, k.Failure)
	c.ids = append(c.ids, k.ID)
	c.types = append(c.types, k.Type)
	c.positions = append(c.positions, p.Position)
	c.metadata = append(c.metadata, k.Metadata)
	c.payloads, c.bytes = append(c.payloads, k.Payload), c.bytes+len(k.Payload)
}
