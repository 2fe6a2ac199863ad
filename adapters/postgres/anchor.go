package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/outriderhq/outrider/outbox"
)

// anchorSQL returns the row at a position, whichever its slot, and whether the slot
// of the anchor has a younger row below it that the cursor covers.
const anchorSQL = `
SELECT r.slot, r.id, r.created_at,
       EXISTS (SELECT 1 FROM {table} b WHERE b.slot = $2 AND b.position <= $1
               AND (b.position <= $4 OR pg_visible_in_snapshot(b.xid, $3::pg_snapshot)) AND b.created_at > $5)
FROM (SELECT 1) AS one LEFT JOIN LATERAL (
    SELECT o.slot, {id} AS id, o.created_at
    FROM pg_catalog.generate_series(0, 15) AS s(slot)
    JOIN {table} o ON o.slot = s.slot::smallint AND o.position = $1
    LIMIT 1
) r ON true`

// checkAnchor verifies that the row at the cursor's position is the one that was read
// there. A row that is gone was removed by retention, unless younger rows of its slot
// are below it: then the position was given out anew, to a transaction that was rolled
// back. (Rows below that were committed late can outlast it, but are older.)
func (s *Source) checkAnchor(ctx context.Context, q querier, c *outbox.Cursor) error {
	if c.Anchor.IsZero() {
		return nil
	}
	find := s.rowAt
	if s.findAt != nil {
		find = s.findAt
	}
	there, below, err := find(ctx, q, c)
	switch {
	case err != nil:
		return err
	case there.IsZero() && below:
		return s.wentBack(fmt.Sprintf("the row at position %d, at which the cursor stands, is not there, though rows before it are", c.Position))
	case !there.IsZero() && !there.Matches(c.Anchor):
		return s.wentBack(fmt.Sprintf("another row is at position %d than when the cursor came there", c.Position))
	}
	return nil
}

// rowAt returns the anchor of the row at the cursor's position; zero: there is none.
func (s *Source) rowAt(ctx context.Context, q querier, c *outbox.Cursor) (a outbox.Anchor, below bool, err error) {
	var slot *int16
	var id *string
	var created *time.Time
	query := strings.NewReplacer("{table}", s.layout.table, "{id}", cutName("o.id", pgtype.TextOID)).Replace(anchorSQL)
	err = q.QueryRow(ctx, query, c.Position, int16(c.Anchor.Slot), c.Snapshot, c.Base, time.UnixMicro(c.Anchor.Born)).Scan(&slot, &id, &created, &below)
	if err != nil || slot == nil {
		return a, below, err
	}
	row := outbox.Row{ID: *id, Slot: int(*slot), CreatedAt: *created}
	_ = row.Limit() // a row that was read has its id cut likewise
	return row.Anchor(), below, nil
}

// rowAt reads the row as a fetch does, on a connection of its own.
func (s *LogSource) rowAt(ctx context.Context, q querier, c *outbox.Cursor) (a outbox.Anchor, below bool, err error) {
	const nothing = "1:1:"                     // a snapshot in which nothing is visible
	reads := make([]outbox.Read, outbox.Slots) // it may be of any slot
	for slot := range reads {
		reads[slot] = outbox.Read{Slot: slot, From: outbox.Cursor{Position: c.Position - 1, Snapshot: nothing, Base: c.Position - 1}, Limit: 1}
	}
	l, err := planLog(reads, firstRowBytes)
	if err != nil {
		return a, false, err
	}
	f := logFetch{logPlan: l, source: s, rows: make([][]*outbox.Row, len(reads)), pages: make([]*outbox.Page, len(reads))}
	conn, err := s.src.pool.Acquire(ctx)
	if err != nil {
		return a, false, err
	}
	r := &reader{conn: conn.Hijack()}
	defer s.src.discard(r)
	if _, err := r.conn.PgConn().Exec(ctx, fetchSettings).ReadAll(); err != nil {
		return a, false, err
	}
	text, err := s.findSQL(ctx, r.conn)
	if err == nil {
		r.fetch, err = r.prepare(ctx, "outrider_fetch", text)
	}
	if err == nil {
		_, err = r.stream(ctx, r.fetch, l.params(), f.row)
	}
	if err != nil {
		return a, false, err
	}
	for _, rows := range f.rows {
		if len(rows) > 0 && rows[0].Position == c.Position {
			return rows[0].Anchor(), true, nil
		}
	}
	// The user may have deleted that row and no other, so rows below it prove nothing,
	// unless they are younger.
	if c.Anchor.Born == 0 || s.mapping.columns[roleCreatedAt] == "" {
		return a, false, nil
	}
	const younger = "SELECT EXISTS (SELECT 1 FROM {table} o WHERE o.{position} <= $1 AND o.{created} > $2)"
	err = q.QueryRow(ctx, s.mapping.replace(younger), c.Position, time.UnixMicro(c.Anchor.Born).UTC()).Scan(&below)
	return a, below, err
}

// Anchored implements [outbox.Anchorer].
func (s *Source) Anchored(ctx context.Context, c outbox.Cursor) (outbox.Cursor, error) {
	if !c.Anchor.IsZero() || c.Snapshot == "" {
		return c, nil
	}
	find := s.rowAt
	if s.findAt != nil {
		find = s.findAt
	}
	var err error
	c.Anchor, _, err = find(ctx, s.pool, &c)
	return c, explain(s.table, "look up the row at the cursor", err)
}

// Anchored implements [outbox.Anchorer].
func (s *LogSource) Anchored(ctx context.Context, c outbox.Cursor) (outbox.Cursor, error) {
	return s.src.Anchored(ctx, c)
}

// anchored returns the anchor of the row at a cursor that has one.
func (s *Source) anchored(ctx context.Context, c *outbox.Cursor) (outbox.Anchor, bool, error) {
	if c.Anchor.IsZero() {
		return outbox.Anchor{}, false, nil
	}
	return s.rowAt(ctx, s.pool, c)
}
