package statestore

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/outriderhq/outrider/adapters"
)

// An old snapshot keeps every version of a cursor row that settles leave behind. A lookup of the row reads them all, and so does the check of
// its primary key each time that a page is full. Such settles go to outrider_settled instead, see its migration.

const (
	// asideSQL settles there. The first settle of an epoch makes the row, while the lock on the cursor row keeps the next owner away;
	// later ones find it unless the next owner has removed it. A lane that was never settled is left to foldSQL: that it was is in its cursor row.
	// The row's place is of this statement's snapshot. If the row is changed meanwhile, servers differ in whether they follow it; foldSQL
	// settles what is left.
	asideSQL = `
WITH s AS MATERIALIZED (
    SELECT s.*, (SELECT n.ctid FROM outrider_settled n WHERE n.route = s.route AND n.slot = s.slot AND n.epoch = s.epoch
        ORDER BY n.part DESC LIMIT 1) AS place
    FROM ` + settledLanes + `
), later AS (
    UPDATE outrider_settled AS h ` + setCursor + `, part = s.revision / 16
    FROM s WHERE h.ctid = s.place AND h.revision >= s.confirmed
    RETURNING h.route, h.slot
), first AS (
    INSERT INTO outrider_settled (route, slot, epoch, part, position, snapshot, window_snapshot, paged, base, beyond, next_seq, cluster,
        source, anchor, revision, updated_at)
    SELECT s.route, s.slot, s.epoch, s.revision / 16, s.position, s.snapshot, s.window_snapshot, s.paged, s.base, s.beyond::bigint[], s.next_seq, s.cluster,
        s.source, s.anchor, s.revision, clock_timestamp()
    FROM s JOIN outrider_cursor c ON c.route = s.route AND c.slot = s.slot
    WHERE s.place IS NULL AND c.epoch = s.epoch AND c.revision >= s.confirmed AND c.updated_at IS NOT NULL
    FOR SHARE OF c
    RETURNING route, slot
)
SELECT route, slot FROM later UNION ALL SELECT route, slot FROM first`

	// lockSQL locks the cursor rows of the lanes ($1, $2).
	lockSQL = lockLanes + inOrder

	lockLanes = `
SELECT FROM outrider_cursor c JOIN unnest($1::text[], $2::smallint[]) AS s(route, slot) ON c.route = s.route AND c.slot = s.slot `

	inOrder = `ORDER BY c.route, c.slot FOR NO KEY UPDATE OF c`

	// foldSQL settles in the cursor row, wherever the progress was before. lockSQL, in the same transaction, comes first, as an acquirer
	// locks the cursor row first: what foldSQL then sees of the row and of what is aside does not change any more. That also keeps
	// PostgreSQL 18.0 and 18.1 from missing rows, see lockFreeSQL.
	foldSQL = `
WITH s AS MATERIALIZED (
    SELECT s.* FROM ` + settledLanes + `
    JOIN outrider_cursor c ON c.route = s.route AND c.slot = s.slot AND c.epoch = s.epoch
    WHERE greatest(c.revision, (SELECT n.revision FROM ` + lastAside + `)) >= s.confirmed
), gone AS (
    DELETE FROM outrider_settled h USING s WHERE h.route = s.route AND h.slot = s.slot AND h.epoch = s.epoch
)
UPDATE outrider_cursor AS c ` + setCursor + `
FROM s WHERE c.route = s.route AND c.slot = s.slot AND c.epoch = s.epoch
RETURNING c.route, c.slot`

	// byIndex keeps plans from being made, and kept, that read all of a table which is small now, or, where ANALYZE has found few rows, all dead
	// versions of a lane's row instead of the last one.
	byIndex = "SELECT pg_catalog.set_config('enable_seqscan', 'off', true), pg_catalog.set_config('enable_bitmapscan', 'off', true)"

	// lastAside is the row in which settles aside have written the progress of cursor row c.
	lastAside = `outrider_settled n WHERE n.route = c.route AND n.slot = c.slot AND n.epoch = c.epoch ORDER BY n.part DESC LIMIT 1`

	// cursorsSQL are the cursor rows with the progress that is valid, in place of the table, for all lanes at once: that reads every row
	// aside, also dead ones, but looks for none where there are none. cursorsByKey looks them up, for a few lanes of this instance.
	cursorsSQL = cursorsWith + `(
        SELECT DISTINCT ON (n.route, n.slot, n.epoch) n.* FROM outrider_settled n ORDER BY n.route, n.slot, n.epoch, n.part DESC
    )` + ofCursor
	cursorsByKey = cursorsWith + `LATERAL (SELECT n.* FROM ` + lastAside + `)` + ofCursor

	cursorsWith = `(
    SELECT c.route, c.slot, c.owner, c.acquired_at, c.epoch, c.former, coalesce(h.position, c.position) AS position, coalesce(h.snapshot, c.snapshot) AS snapshot,
        coalesce(h.window_snapshot, c.window_snapshot) AS window_snapshot, coalesce(h.paged, c.paged) AS paged, coalesce(h.base, c.base) AS base,
        coalesce(h.beyond, c.beyond) AS beyond, coalesce(h.cluster, c.cluster) AS cluster, coalesce(h.source, c.source) AS source,
        coalesce(h.anchor, c.anchor) AS anchor, coalesce(h.updated_at, c.updated_at) AS updated_at
    FROM outrider_cursor c LEFT JOIN `
	ofCursor = ` h ON h.route = c.route AND h.slot = c.slot AND h.epoch = c.epoch AND h.revision >= c.revision
)`
)

const (
	// asideMoves is how often rows move to another page, on average, until settles go aside. Without an old snapshot they stay: their
	// page has room when dead versions are removed.
	asideMoves = 32

	// asideFor is how long they do, until another look at the cursor rows; and how long moves are counted together.
	asideFor = 10 * time.Minute
)

// aside says where settles are written.
type aside struct {
	until atomic.Pointer[time.Time]
	used  atomic.Bool // ever: lanes of this instance may have rows there

	mu    sync.Mutex
	began time.Time // counting
	moves int
	pages map[adapters.LaneRef]uint32 // of the tables' rows
}

// on reports whether settles go to outrider_settled.
func (a *aside) on() bool {
	until := a.until.Load()
	return until != nil && time.Now().Before(*until)
}

// read adds the lanes that settleSQL returns to those alive, and counts rows that have moved.
func (a *aside) read(rows pgx.Rows, alive map[adapters.LaneRef]bool) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	if a.pages == nil || now.Sub(a.began) > asideFor {
		a.began, a.moves, a.pages = now, 0, map[adapters.LaneRef]uint32{}
	}
	var ref adapters.LaneRef
	var place pgtype.TID
	_, err := pgx.ForEachRow(rows, []any{&ref.Route, &ref.Slot, &place}, func() error {
		alive[ref] = true
		if page, known := a.pages[ref]; known && page != place.BlockNumber {
			a.moves++
		}
		a.pages[ref] = place.BlockNumber
		return nil
	})
	if len(a.pages) > 0 && a.moves >= asideMoves*len(a.pages) {
		until := now.Add(asideFor)
		a.until.Store(&until)
		a.pages = nil
	}
	return err
}
