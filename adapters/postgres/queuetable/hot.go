package queuetable

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/wire"
)

// The hot path: rows that transactions of this process insert, claimed from memory after their commit. See
// docs/design.md, "The hot path of tables without a claim status".

const (
	// hotBefore bounds the rows of a group that may wait before one that is claimed from memory.
	hotBefore = 64

	// hotReserved bounds the rows that are known from their INSERT until they are claimed, and hotDone the rows of
	// which it is remembered that they are done.
	hotReserved = 8192
	hotDone     = 8192
)

var _ adapters.HotQueue = (*Queue)(nil)

// hotRows is what a queue knows of rows that are claimed from memory. It is guarded by the queue's lock.
type hotRows struct {
	text     hotText
	reserved map[string]*adapters.HotRow // inserted, and neither claimed nor given up, by key
	order    []*adapters.HotRow          // those and former ones, the oldest first

	seq  uint64            // counts settles
	done map[string]uint64 // rows of which a settle has written that they are done, and its number
	past []string          // their keys, the oldest first

	guarded time.Time // when it was last looked at what statements would read, see [Queue.guardHot]
	looking bool      // it is being looked at
	rests   bool      // they would read a backlog
}

// describeHot finds out what INSERTs are completed with. Without an index of what waits by group it would be too dear to ask.
func (q *Queue) describeHot(ctx context.Context, conn *pgxpool.Conn, t *queueTable, indexes queueIndexes) error {
	l := t.sql.layout
	if l.Noted() || len(q.tables) > 1 || t.sql.types.payload == "bytea" || l.DefaultGroup != "" || l.Columns.Group != "" && !indexes.whole {
		return nil
	}
	var table uint32
	var database string
	if err := conn.QueryRow(ctx, "SELECT $1::text::pg_catalog.regclass::oid, pg_catalog.current_database()::text", t.sql.table).Scan(&table, &database); err != nil {
		return err
	}
	text := t.sql.hot(table, database)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.hot.text = text
	return nil
}

// Announce implements [adapters.HotQueue].
func (q *Queue) Announce(insert string) adapters.HotInsert {
	q.mu.Lock()
	defer q.mu.Unlock()
	h := &q.hot
	if h.text.tail == "" {
		return nil
	}
	statement := h.text.statements[insert]
	if statement == "" && len(h.text.statements) < 16 {
		statement = h.text.head + insert + h.text.tail
		h.text.statements[insert] = statement
	}
	if statement == "" {
		return nil
	}
	if h.done == nil {
		h.done, h.reserved = map[string]uint64{}, map[string]*adapters.HotRow{}
	}
	if q.open.Err() == nil && h.guardDue() { // claims may be far apart, and without room there are none
		q.guards.Go(func() { q.guardHot(q.open) })
	}
	if h.rests {
		return nil
	}
	return &hotInsert{q: q, statement: statement, seq: h.seq}
}

// hotInsert implements [adapters.HotInsert].
type hotInsert struct {
	q         *Queue
	statement string
	seq       uint64
	rows      []*adapters.HotRow
	same      map[string][]string // keys of the rows so far, by group
}

func (i *hotInsert) Statement() string { return i.statement }

// Inserted implements [adapters.HotInsert]. The row is known before it becomes visible, so a claim that finds it is noticed.
func (i *hotInsert) Inserted(columns []*string) {
	row, ok := hotRow(columns)
	if !ok || row.Raw == nil {
		return
	}
	row.Seq, row.At = i.seq, time.Now()
	if row.Group != nil {
		if i.same == nil {
			i.same = map[string][]string{}
		}
		earlier := i.same[*row.Group]
		row.Before = append(row.Before, earlier...)
		i.same[*row.Group] = append(slices.Clip(earlier), row.Key)
	}
	if columns[hotSure] == nil || len(row.Before) > hotBefore {
		return
	}
	row.XID, row.Place = *columns[hotSure], *columns[hotTID]
	if i.q.reserve(row) {
		i.rows = append(i.rows, row)
	}
}

func (i *hotInsert) Rows() []*adapters.HotRow { return i.rows }

func (i *hotInsert) Forget() {
	i.q.mu.Lock()
	defer i.q.mu.Unlock()
	for _, row := range i.rows {
		i.q.hot.release(row)
	}
	i.rows = nil
}

// hotRow makes the columns of a look of what a statement returned; false for what no statement of ours returns.
func hotRow(c []*string) (*adapters.HotRow, bool) {
	if len(c) < hotExtra || c[hotCreated] == nil || c[hotKey] == nil || c[hotTID] == nil {
		return nil, false
	}
	created, err := strconv.ParseInt(*c[hotCreated], 10, 64)
	if err != nil {
		return nil, false
	}
	tid, ok := tidOf(*c[hotTID])
	if !ok {
		return nil, false
	}
	row := &adapters.HotRow{Key: *c[hotKey], Group: c[hotGroup]}
	if c[hotWaiting] != nil && json.Unmarshal([]byte(*c[hotWaiting]), &row.Before) != nil {
		return nil, false
	}
	v := make([][]byte, lookExtra, lookExtra+len(c)-hotExtra+1)
	v[lookCreated] = binary.BigEndian.AppendUint64(nil, uint64(created))
	v[lookID], v[lookTID] = []byte(row.Key), tid
	for _, at := range [][2]int{{lookType, hotType}, {lookPayload, hotPayload}, {lookAggregateType, hotAggregateType}, {lookAggregateID, hotAggregateID},
		{lookTenant, hotTenant}, {lookHeaders, hotHeaders}} {
		v[at[0]] = bytesOrNull(c[at[1]])
	}
	if c[hotStored] != nil {
		stored, err := strconv.ParseInt(*c[hotStored], 10, 64)
		if err != nil {
			return nil, false
		}
		v[lookStored] = binary.BigEndian.AppendUint64(nil, uint64(stored))
	}
	for _, header := range c[hotExtra:] {
		v = append(v, bytesOrNull(header))
	}
	v = append(v, binary.BigEndian.AppendUint32(nil, 0)) // attempts
	row.Raw = v
	row.Bytes = wire.Size(row.Raw)
	return row, true
}

func bytesOrNull(s *string) []byte {
	if s == nil {
		return nil
	}
	return []byte(*s)
}

// tidOf reads a place as text, (block,offset).
func tidOf(text string) ([]byte, bool) {
	block, offset, ok := strings.Cut(strings.Trim(text, "()"), ",")
	b, err := strconv.ParseUint(block, 10, 32)
	if err != nil || !ok {
		return nil, false
	}
	o, err := strconv.ParseUint(offset, 10, 16)
	if err != nil {
		return nil, false
	}
	return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint32(nil, uint32(b)), uint16(o)), true
}

// reserve notes a row that may become visible.
func (q *Queue) reserve(row *adapters.HotRow) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	h := &q.hot
	for len(h.order) > 0 && (h.reserved[h.order[0].Key] != h.order[0] || row.At.Sub(h.order[0].At) > adapters.HotTTL) {
		h.release(h.order[0])
		h.order = h.order[1:]
	}
	if len(h.order) >= hotReserved {
		return false
	}
	h.reserved[row.Key] = row
	h.order = append(h.order, row)
	return true
}

// release forgets a row.
func (h *hotRows) release(row *adapters.HotRow) {
	if h.reserved[row.Key] == row {
		delete(h.reserved, row.Key)
	}
}

// found forgets a row that a claim has found. The caller has the queue's lock.
func (h *hotRows) found(key string) { delete(h.reserved, key) }

// settled notes which rows are done. The caller has the queue's lock.
func (h *hotRows) settled(keys ...string) {
	if h.done == nil {
		return
	}
	h.seq++
	for _, key := range keys {
		h.done[key] = h.seq
		h.past = append(h.past, key)
	}
	for len(h.past) > hotDone {
		delete(h.done, h.past[0])
		h.past = h.past[1:]
	}
}

// ClaimHot implements [adapters.HotQueue].
func (q *Queue) ClaimHot(req adapters.ClaimRequest, rows []*adapters.HotRow) (claimed []*adapters.Row, left int) {
	q.claiming.Lock()
	defer q.claiming.Unlock()
	q.findLost()
	c, t := q.newClaim(req), q.tables[0]
	t.want(req.Wants, c.Slots, c.Terms)
	s := &tableClaim{claim: c, table: t}
	for _, hot := range rows {
		row, known := s.claimHot(hot)
		switch {
		case row != nil:
			claimed = append(claimed, row)
		case known:
			left++
		}
	}
	return claimed, left
}

// claimHot claims one row. Known is false for one that is not to be claimed any more: a claim has found it, or it has waited for too long.
func (s *tableClaim) claimHot(hot *adapters.HotRow) (row *adapters.Row, known bool) {
	q, t := s.q, s.table
	g := t.group(hot.Group)
	row = t.decode(&q.decoder, g, hot.Raw)
	matches := s.Slots[row.Slot] && (s.req.Match == nil || s.req.Match(row))
	created := wire.Int64FromBinary(hot.Raw[lookCreated])
	q.mu.Lock()
	defer q.mu.Unlock()
	known = q.hot.reserved[hot.Key] == hot && time.Since(hot.At) <= adapters.HotTTL
	q.hot.release(hot)
	if !known {
		return nil, false
	}
	if !matches || !s.first(g, hot) {
		t.enterFrom(g, created) // a claim finds it without reading everything
		return nil, true
	}
	q.tokens++
	p := picked{row: row, visit: &visit{group: g}, created: created, tid: wire.TIDFromBinary(hot.Raw[lookTID])}
	return s.hold(p, &hold{stamp: q.tokens, at: time.Now(), term: s.Terms[row.Slot]}, 0), true
}

// first reports whether all that waited in the row's group is held in this session of the lane, or done. The caller has the queue's lock.
func (s *tableClaim) first(g *queueGroup, hot *adapters.HotRow) bool {
	if !g.ordered() {
		return true
	}
	if s.table.holds[hot.Key] != nil || s.req.PerGroup > 0 && s.table.held[g.id] >= s.req.PerGroup {
		return false
	}
	for _, key := range hot.Before {
		h := s.table.holds[key]
		held := h != nil && h.term == s.Terms[g.slot] && !h.tried
		if !held && s.q.hot.done[key] <= hot.Seq {
			return false
		}
	}
	return true
}
