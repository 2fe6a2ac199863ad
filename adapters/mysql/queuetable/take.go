package queuetable

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/queue"
	"github.com/outriderhq/outrider/adapters/internal/sqlvalue"
	"github.com/outriderhq/outrider/adapters/mysql/internal/my"
)

// picked is a row that is to be claimed.
type picked struct {
	key   any
	row   *adapters.Row
	queue string
}

// How many rows are read at a time, and of how many bytes about. A payload that is larger than inlineBytes is read by itself, when it
// is known to fit.
const (
	chunkRows   = 500
	firstChunk  = 64
	chunkBytes  = 4 << 20
	inlineBytes = 32 << 10
)

// size is how many rows are locked and read by one statement.
func (v *turn) size() int {
	n := firstChunk
	if mean := v.table.mean; mean > 0 {
		n = int(min(max(chunkBytes/mean, 1), chunkRows))
		if v.req.Bytes > 0 {
			n = min(n, int(max((v.req.Bytes-v.bytes)/mean+1, 1)))
		}
	}
	return max(n, v.chunk)
}

// take locks and reads chosen rows, and marks those that can be claimed. A row that is no longer there ends the prefix of its
// group, and so does one that no longer fits.
func (v *turn) take(ctx context.Context, chosen []entry, most int) error {
	if len(chosen) == 0 {
		return nil
	}
	var rows []picked
	var stamp time.Time
	var refused int
	before := map[string]progress{}
	for i := range chosen {
		before[chosen[i].queue] = *v.progress(chosen[i].queue)
	}
	bytes := v.bytes
	work := func(tx querier) error {
		rows, refused, v.bytes, v.full = nil, 0, bytes, false
		for queue, p := range before {
			*v.progress(queue) = p
		}
		found, now, err := v.read(ctx, tx, chosen)
		if err != nil {
			return err
		}
		if rows, refused, err = v.pick(ctx, tx, chosen, found, most); err != nil {
			return err
		}
		stamp, err = v.mark(ctx, tx, now, rows)
		return err
	}
	var err error
	if v.table.layout.Claimless() {
		err = work(v.q.db)
	} else {
		err = my.Transact(ctx, v.q.db, func(tx *sql.Tx) error { return work(tx) })
	}
	if err != nil {
		if len(rows) > 0 && !v.table.layout.Claimless() && !my.Answered(err) {
			v.table.orphans = append(v.table.orphans, v.orphansOf(rows, stamp))
		}
		return err
	}
	v.keep(rows, stamp)
	if v.chunk = 0; refused > 0 { // there may be many of them
		v.chunk = min(2*max(len(chosen), firstChunk), chunkRows)
	}
	return nil
}

// orphansOf names rows that a claim may have marked: its connection broke, perhaps while it committed.
func (v *turn) orphansOf(rows []picked, stamp time.Time) values {
	o := values{token: v.q.token, claimed: stamp}
	for i := range rows {
		o.keys = append(o.keys, rows[i].key)
	}
	return o
}

// putBack resets rows to waiting that claims with an unknown outcome may have marked. Otherwise they, and the rows behind them, would stay untouched
// until they count as stuck. Rows that other sessions have locked wait for the next claim. The caller has claiming.
func (t *table) putBack(ctx context.Context, q *Queue) error {
	for i := range t.orphans {
		o := &t.orphans[i]
		free, err := t.free(ctx, q.db, o.keys)
		if err != nil {
			return err
		}
		unlocked, rest := *o, []any(nil)
		unlocked.keys = nil
		for _, key := range o.keys {
			if _, ok := free[t.sql().KeyText(key)]; ok {
				unlocked.keys = append(unlocked.keys, key)
			} else {
				rest = append(rest, key)
			}
		}
		query, args := unlocked.bind(t.sql().unclaim)
		if len(unlocked.keys) > 0 {
			_, err = q.db.ExecContext(ctx, query, args...)
		}
		if err != nil {
			return err
		}
		o.keys = rest
		t.spot.in = t.spot.in && t.spot.queue == alone // they may be before the place in the group
	}
	t.orphans = slices.DeleteFunc(t.orphans, func(o values) bool { return len(o.keys) == 0 })
	return nil
}

// free are the keys of rows that no transaction has locked.
func (t *table) free(ctx context.Context, db querier, keys []any) (map[string]int64, error) {
	free := map[string]int64{}
	if len(keys) == 0 {
		return free, nil
	}
	query, args := (&values{keys: keys}).bind(t.sql().free)
	return free, keysOf(ctx, db, t, free, 0, query, args...)
}

// read reads the rows that are there still, by key, and what time it is.
func (v *turn) read(ctx context.Context, tx querier, chosen []entry) (found map[string]*queue.Record, now time.Time, err error) {
	s := v.table.sql()
	keys := make([]any, len(chosen))
	for i := range chosen {
		keys[i] = s.value(s.layout.Columns.Key, chosen[i].key)
	}
	rows, err := tx.QueryContext(ctx, strings.Replace(s.lock, "(%s)", "("+list(len(keys))+")", 1), keys...)
	if err != nil {
		return nil, now, err
	}
	defer func() { _ = rows.Close() }() // Err returns the error
	found = map[string]*queue.Record{}
	for rows.Next() {
		r := v.table.record().With(&now)
		if err := r.Scan(rows); err != nil {
			return nil, now, err
		}
		found[s.KeyText(r.Key)] = r
		v.table.mean = (7*v.table.mean + int64(len(r.Payload)) + r.Left() + 7) / 8
	}
	return found, now, rows.Err()
}

// pick decides which of the rows are claimed, in their order.
func (v *turn) pick(ctx context.Context, tx querier, chosen []entry, found map[string]*queue.Record, most int) (rows []picked, refused int, err error) {
	t, s := v.table, v.table.sql()
	fits := func(size int64) bool {
		return v.req.Bytes <= 0 || len(v.rows)+len(rows) == 0 || v.bytes+size <= v.req.Bytes
	}
	for i := range chosen {
		e := &chosen[i]
		p := v.progress(e.queue)
		if p.cut {
			delete(v.chosen, e.text)
			continue
		}
		r := found[e.text]
		delete(found, e.text) // its payload is kept by nothing if no route wants it
		if r, err = v.fill(ctx, tx, r, fits); err != nil {
			return nil, 0, err
		}
		if r == nil || r.Group.String != e.queue { // locked, claimed or changed meanwhile
			v.wait(e.queue, p, time.Now().Add(blockedPause))
			p.cut = e.queue != alone
			continue
		}
		row := r.Decode()
		size := int64(len(row.Payload)) + r.Left()
		if r.Left() == 0 && v.req.Match != nil && !v.req.Match(row) {
			refused++
			if later := v.req.Later == nil || v.req.Later(row); !later && v.req.Wants != 0 {
				t.remember(e.text)
			}
			continue
		}
		if !fits(size) || v.got+len(rows) >= most || v.room(p, e.queue) <= 0 {
			p.ended, p.cut, t.round.left = true, true, true
			v.full = v.full || !fits(size)
			delete(v.chosen, e.text)
			continue
		}
		p.got++
		v.bytes += size
		row.Claim = &adapters.Claim{Table: t.Name, Key: row.ID, Attempts: r.Attempts}
		rows = append(rows, picked{s.value(s.layout.Columns.Key, r.Key), row, e.queue})
	}
	return rows, refused, nil
}

// fill reads the payload of a row that was left out, if it fits; nil: the row is gone.
func (v *turn) fill(ctx context.Context, tx querier, r *queue.Record, fits func(size int64) bool) (*queue.Record, error) {
	if r == nil || r.Left() == 0 || !fits(r.Left()) {
		return r, nil
	}
	s := v.table.sql()
	var payload sqlvalue.Bytes
	err := tx.QueryRowContext(ctx, s.payload, s.value(s.layout.Columns.Key, r.Key)).Scan(&payload)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	r.Fill(payload)
	return r, err
}

// unwantedMost bounds what is remembered of rows that no route wants.
const unwantedMost = 200_000

// remember takes note of a row that no route wants.
func (t *table) remember(key string) {
	if len(t.unwanted) < unwantedMost {
		t.unwanted[key] = true
	}
}

// keep remembers what was claimed.
func (v *turn) keep(rows []picked, stamp time.Time) {
	v.q.claims.Lock()
	defer v.q.claims.Unlock()
	for _, p := range rows {
		h := &hold{token: v.q.claims.Token(), key: p.key, stamp: stamp, former: stamp, slot: p.row.Slot, term: v.Terms[p.row.Slot]}
		p.row.Claim.Token = h.token
		v.table.Keep(p.row.ID, h)
		v.rows = append(v.rows, p.row)
	}
	v.got, v.table.round.got = v.got+len(rows), v.table.round.got+len(rows)
}
