package owntable

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/sqltext"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
	"github.com/outriderhq/outrider/adapters/postgres/internal/reader"
	"github.com/outriderhq/outrider/adapters/postgres/internal/wire"
)

// The hot path: rows that transactions of this process insert come back with their INSERT, and are delivered after the commit. See
// docs/design.md, "The hot path of own tables".

var _ adapters.HotSource = (*Source)(nil)

// hotLook is how many rows of its slot an INSERT reads, those with the highest transaction numbers.
const hotLook = 16

// Columns of what the statement returns.
const (
	hotSlot = iota
	hotPosition
	hotID
	hotType
	hotGroup
	hotAggregateType
	hotAggregateID
	hotTenant
	hotTags
	hotHeaders
	hotPayload
	hotBytes
	hotOccurred
	hotCreated
	hotXID
	hotPlace
	hotSnapshot
	hotSure
	hotBefore
	hotColumns
)

// hotInto begins a statement that hotSQL ends, around an INSERT. Besides the rows it returns, in the snapshot that it has, what was inserted last into
// their slots, by the index (slot, xid, position): transaction, position, and whether it is of the row's group. Transaction ids that do not exist yet
// (restored, or written by hand) are left out, or nothing else would be seen.
//
// A row is sure to become visible with its transaction, and its look to have seen everything that was committed before the writer's turn in
// the group, in the table that the source reads, at READ COMMITTED, without row security, and outside of savepoints, which can be rolled
// back alone: a row of one has an xmin of its own. Times that a message cannot carry are left to the read, too.
const (
	hotInto = "WITH published AS (\n"
	hotSQL  = `
RETURNING *, ctid AS hot_place, tableoid AS hot_table, xmin AS hot_xmin
)
SELECT p.slot::text, p.position::text, p.id, p.type, p.message_group, p.aggregate_type, p.aggregate_id, p.tenant_id, p.tags::text, p.headers::text,
    p.payload::text, pg_catalog.encode(p.payload_bytes, 'hex'), {occurred_at}, {created_at}, p.xid::text, p.hot_place::text, pg_catalog.pg_current_snapshot()::text,
    (p.hot_table = {oid}::oid AND pg_catalog.current_database() = {database} AND NOT pg_catalog.row_security_active({oid}::oid)
        AND pg_catalog.current_setting('transaction_isolation') = 'read committed'
        AND p.hot_xmin = pg_catalog.pg_current_xact_id()::xid AND p.xid = pg_catalog.pg_current_xact_id()
        AND (p.occurred_at IS NULL OR {occurred_at} IS NOT NULL) AND {created_at} IS NOT NULL)::text,
    b.before
FROM published p
CROSS JOIN LATERAL (
    SELECT pg_catalog.string_agg(w.xid::text || ' ' || w.position::text || CASE WHEN w.same THEN ' s' ELSE ' o' END, ',') AS before
    FROM (
        SELECT o.xid, o.position, o.message_group = p.message_group AS same
        FROM {table} o
        WHERE p.message_group IS NOT NULL AND o.slot = p.slot AND o.xid <= greatest(p.xid, pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot()))
        ORDER BY o.slot DESC, o.xid DESC
        LIMIT {look}
    ) w
) b
ORDER BY p.position`
)

// hotTime is a column in microseconds since 1970; null if a message is not certain to be able to carry it.
func hotTime(column string) string {
	return fmt.Sprintf("CASE WHEN p.%[1]s >= '1900-01-01 00:00:00+00' AND p.%[1]s < '3000-01-01 00:00:00+00' "+
		"THEN (extract(epoch FROM p.%[1]s) * 1000000)::bigint::text END", column)
}

// hotTable has the text that completes INSERTs.
type hotTable struct {
	source *Source
	text   string // that ends the statement; "": rows are not delivered from memory
}

// describeHot finds out what INSERTs are completed with. In a table with partitions the look would visit each of them.
func (s *Source) describeHot(ctx context.Context, r *reader.Conn) error {
	var oid uint32
	var plain bool
	var database string
	if err := r.Conn.QueryRow(ctx, "SELECT c.oid, c.relkind = 'r', pg_catalog.current_database()::text FROM pg_catalog.pg_class c WHERE c.oid = $1::text::pg_catalog.regclass",
		s.base.Quoted).Scan(&oid, &plain, &database); err != nil {
		return err
	}
	t := &hotTable{source: s}
	if plain {
		t.text = sqltext.Fill(hotSQL, sqltext.Names{"table": s.base.Quoted, "oid": strconv.FormatUint(uint64(oid), 10), "database": pg.Literal(database),
			"occurred_at": hotTime("occurred_at"), "created_at": hotTime("created_at"), "look": strconv.Itoa(hotLook)})
	}
	s.hot.Store(t)
	return nil
}

// hot is a pointer, because Announce waits for no read.
type hot = atomic.Pointer[hotTable]

// Announce implements [adapters.HotSource].
func (s *Source) Announce(insert string) adapters.HotRead {
	i := &hotRead{table: s.hot.Load(), statement: insert + "\nRETURNING CAST(slot AS pg_catalog.text)"}
	if i.table != nil && i.table.text != "" {
		i.statement = hotInto + insert + i.table.text
	}
	return i
}

// hotRead implements [adapters.HotRead].
type hotRead struct {
	table     *hotTable
	statement string
	same      map[string][]int64 // positions of the rows so far, by group
}

func (h *hotRead) Statement() string { return h.statement }

// Inserted implements [adapters.HotRead].
func (h *hotRead) Inserted(c []*string) (row adapters.HotLogRow, slot int, ok bool) {
	if len(c) == 0 || c[0] == nil {
		return row, -1, false
	}
	slot, err := strconv.Atoi(*c[0])
	if err != nil || slot < 0 || slot >= adapters.Slots {
		return row, -1, false
	}
	if len(c) != hotColumns || c[hotSure] == nil || *c[hotSure] != "true" || c[hotXID] == nil || c[hotPlace] == nil {
		return row, slot, false
	}
	decoded, err := h.row(c, slot)
	if err != nil {
		return row, slot, false
	}
	before, err := earlierRows(c)
	if err != nil {
		return row, slot, false
	}
	if g := decoded.Group; g != "" {
		if h.same == nil {
			h.same = map[string][]int64{}
		}
		before.beside = h.same[g]
		h.same[g] = append(slices.Clip(before.beside), decoded.Position)
	}
	return adapters.HotLogRow{Row: decoded, XID: *c[hotXID], Place: *c[hotPlace], Follows: before.taken}, slot, true
}

// row converts the columns to the row as a read returns it. In doubt it returns an error, and the row is left to the read.
func (h *hotRead) row(c []*string, slot int) (*adapters.Row, error) {
	text := func(n int) string {
		if c[n] == nil {
			return ""
		}
		return *c[n]
	}
	raw := func(n int) []byte {
		if c[n] == nil {
			return nil
		}
		return []byte(*c[n])
	}
	row := &adapters.Row{ID: text(hotID), Type: text(hotType), Group: text(hotGroup), AggregateType: text(hotAggregateType), AggregateID: text(hotAggregateID),
		Tenant: text(hotTenant), Slot: slot, Payload: raw(hotPayload), Binary: c[hotPayload] == nil}
	var errs [6]error
	if row.Binary {
		row.Payload, errs[0] = hex.DecodeString(text(hotBytes))
	}
	row.Position, errs[1] = strconv.ParseInt(text(hotPosition), 10, 64)
	row.Tags, errs[2] = wire.StringMap(raw(hotTags))
	row.Headers, errs[3] = wire.StringMap(raw(hotHeaders))
	row.OccurredAt, errs[4] = hotTimeOf(c[hotOccurred])
	row.CreatedAt, errs[5] = hotTimeOf(c[hotCreated])
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	if int64(len(row.Payload)) > h.table.source.limits.payload {
		return nil, adapters.ErrTooLarge
	}
	return row, row.Limit()
}

func hotTimeOf(micros *string) (time.Time, error) {
	if micros == nil {
		return time.Time{}, nil
	}
	n, err := strconv.ParseInt(*micros, 10, 64)
	return time.UnixMicro(n).UTC(), err
}

// earlier has the rows that an INSERT knows of before its own.
type earlier struct {
	seen   reader.Snapshot // of the INSERT
	xid    uint64          // of its transaction
	rows   []earlierRow    // of the slot, those with the highest transaction numbers; all of it, if there are fewer than hotLook
	beside []int64         // positions of the rows of the same statement and group
}

type earlierRow struct {
	xid      uint64
	position int64
	same     bool // of the row's group
}

func earlierRows(c []*string) (e *earlier, err error) {
	e = &earlier{}
	if c[hotSnapshot] == nil || c[hotXID] == nil {
		return nil, reader.ErrNoSnapshot
	}
	if e.seen, err = reader.ParseSnapshot(*c[hotSnapshot]); err != nil {
		return nil, err
	}
	if e.xid, err = strconv.ParseUint(*c[hotXID], 10, 64); err != nil || c[hotBefore] == nil {
		return e, err
	}
	for text := range strings.SplitSeq(*c[hotBefore], ",") {
		var r earlierRow
		var same string
		if _, err := fmt.Sscanf(text, "%d %d %s", &r.xid, &r.position, &same); err != nil {
			return nil, err
		}
		r.same = same == "s"
		e.rows = append(e.rows, r)
	}
	return e, nil
}

// taken is [adapters.HotLogRow.Follows]. Rows of the group are before the row if the INSERT saw them, or its own statement wrote them.
// Those among the latest of the slot are compared one by one. Of all others their transactions say that they were visible: none may have ended
// between the cursor's snapshot and that of the INSERT.
func (e *earlier) taken(c adapters.Cursor, known func(position int64) bool) bool {
	s, err := reader.ParseSnapshot(c.Snapshot)
	if err != nil || c.Window != "" {
		return false
	}
	if len(e.rows) >= hotLook {
		low := e.xid
		for _, r := range e.rows {
			low = min(low, r.xid)
		}
		if low >= s.Xmax || low == e.xid {
			return false
		}
		for _, xid := range s.Xip {
			if xid <= low && e.seen.Visible(xid) {
				return false
			}
		}
	}
	for _, r := range e.rows {
		if r.same && !s.Visible(r.xid) && !known(r.position) {
			return false
		}
	}
	for _, position := range e.beside {
		if !known(position) {
			return false
		}
	}
	return true
}
