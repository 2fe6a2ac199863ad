package statestore

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"slices"
	"strings"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/state"
	"github.com/outriderhq/outrider/adapters/mysql/internal/my"
	"github.com/outriderhq/outrider/internal/failpoint"
)

const (
	// lanesAtOnce bounds the lanes that one statement settles, and keysAtOnce the parked rows that one looks for,
	// deletes or writes: the server plans long lists slowly, or not by the index.
	lanesAtOnce = 100
	keysAtOnce  = 250

	// bytesAtOnce is the most bytes of the parked rows of one statement, unless one alone is larger: a statement must
	// fit into max_allowed_packet, which may be 16 MiB.
	bytesAtOnce = 1 << 20

	// settleSQL moves the cursors whose epoch is the given one, and that were not put back to an earlier state. It is all of
	// a settle without parked rows: one statement for all lanes, its own transaction. The lanes come as a table, in the order
	// in which rows are locked.
	settleSQL = `UPDATE ({these}) AS s STRAIGHT_JOIN outrider_cursor AS c ON c.route = s.route AND c.slot = s.slot
SET c.position = s.position, c.snapshot = s.snapshot, c.window_snapshot = s.window_snapshot, c.paged = s.paged,
    c.base = s.base, c.beyond = s.beyond, c.next_seq = s.next_seq, c.cluster = s.cluster,
    c.source = s.source, c.anchor = s.anchor, c.revision = s.revision, c.updated_at = ` + now + `
WHERE c.epoch = s.epoch AND c.revision >= s.confirmed`

	settleLane = `SELECT ? AS route, ? AS slot, ? AS epoch, ? AS position, ? AS snapshot, ? AS window_snapshot, ? AS paged, ? AS base, ? AS beyond,
    ? AS next_seq, ? AS cluster, ? AS source, ? AS anchor, ? AS revision, ? AS confirmed`

	unparkSQL = `DELETE FROM outrider_parked WHERE {these}`

	parkSQL = `INSERT INTO outrider_parked (route, slot, seq, message_group, group_hash, status, attempts, next_attempt_at, last_error,
    event_id, event_type, position, metadata, payload, tries, failure, parked_at) VALUES `

	parkRow = `(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ` + now + `)`

	parkAgain = ` ON DUPLICATE KEY UPDATE message_group = VALUES(message_group), group_hash = VALUES(group_hash), status = VALUES(status),
    attempts = VALUES(attempts), next_attempt_at = VALUES(next_attempt_at), last_error = VALUES(last_error),
    event_id = VALUES(event_id), event_type = VALUES(event_type), position = VALUES(position),
    metadata = VALUES(metadata), payload = VALUES(payload), tries = VALUES(tries), failure = VALUES(failure)`
)

// Settle writes all settlements in one transaction and returns the lanes whose
// epoch has moved on; nothing of those is written. When the connection was lost before the COMMIT was answered, it is not known
// whether it is written: the same settle again writes it, or once more.
func (s *Store) Settle(ctx context.Context, settlements []adapters.Settlement) (fenced []adapters.LaneRef, err error) {
	if len(settlements) == 0 {
		return nil, nil
	}
	sorted, err := state.SortSettlements(settlements)
	if err != nil {
		return nil, stateError("settle", err)
	}
	if len(sorted) <= lanesAtOnce && !parksAny(sorted) {
		err = my.RetryConflict(ctx, func() error {
			fenced, err = settleCursors(ctx, s.db, sorted)
			return err
		})
		return fenced, stateError("settle", err)
	}
	err = s.transact(ctx, func(tx *sql.Tx) error {
		// The cursors first: their rows are the fence, and stay locked until
		// the parked rows are written too.
		if fenced, err = settleCursors(ctx, tx, sorted); err != nil {
			return err
		}
		if err := settleParked(ctx, tx, sorted, fenced); err != nil {
			return err
		}
		failpoint.Hit(failpoint.InSettle)
		return nil
	})
	if err != nil {
		return nil, stateError("settle", err)
	}
	return fenced, nil
}

func parksAny(settlements []adapters.Settlement) bool {
	return slices.ContainsFunc(settlements, func(t adapters.Settlement) bool { return len(t.Park)+len(t.Unpark) > 0 })
}

// settleCursors returns the lanes that were fenced.
func settleCursors(ctx context.Context, q state.Querier, settlements []adapters.Settlement) (fenced []adapters.LaneRef, err error) {
	for chunk := range slices.Chunk(settlements, lanesAtOnce) {
		lanes, args := make([]string, len(chunk)), make([]any, 0, 15*len(chunk))
		for i := range chunk {
			t := &chunk[i]
			lanes[i] = settleLane
			args = append(args, []byte(t.Route), t.Slot, t.Epoch, t.Cursor.Position, t.Cursor.Snapshot, t.Cursor.Window, t.Cursor.Paged, t.Cursor.Base,
				state.BeyondText(t.Beyond), t.NextSeq, t.Table.Cluster, t.Table.Name, state.AnchorText(t.Cursor, t.Table), t.Revision, t.Confirmed)
		}
		found, err := affected(q.ExecContext(ctx, fill(settleSQL, strings.Join(lanes, " UNION ALL ")), args...))
		if err != nil {
			return nil, err
		}
		if found < len(chunk) {
			some, err := fencedLanes(ctx, q, chunk)
			if err != nil {
				return nil, err
			}
			fenced = append(fenced, some...)
		}
	}
	return fenced, nil
}

// fencedLanes are those of the settlements that were not written. It looks afterwards: a lane that has another owner, or was put
// back, stays so. One that was written and has been taken over since then counts as well, and is its new owner's.
func fencedLanes(ctx context.Context, q state.Querier, settlements []adapters.Settlement) (fenced []adapters.LaneRef, err error) {
	type mark struct{ epoch, revision int64 }
	marks := map[adapters.LaneRef]mark{}
	lanes, args := make([]string, len(settlements)), make([]any, 0, 2*len(settlements))
	for i := range settlements {
		lanes[i], args = "route = ? AND slot = ?", append(args, settlements[i].Route, settlements[i].Slot)
	}
	err = state.Each(ctx, q, `SELECT route, slot, epoch, revision FROM outrider_cursor WHERE `+strings.Join(lanes, " OR "), args, func(scan func(...any) error) error {
		var ref adapters.LaneRef
		var m mark
		err := scan(&ref.Route, &ref.Slot, &m.epoch, &m.revision)
		marks[ref] = m
		return err
	})
	for i := range settlements {
		t := &settlements[i]
		if m, there := marks[t.LaneRef]; !there || m.epoch != t.Epoch || m.revision < t.Confirmed {
			fenced = append(fenced, t.LaneRef)
		}
	}
	return fenced, err
}

// settleParked deletes and writes the parked rows of the lanes that are not fenced. Unparked rows go first, so that a seq
// may be used again.
func settleParked(ctx context.Context, tx *sql.Tx, settlements []adapters.Settlement, fenced []adapters.LaneRef) error {
	var gone, known []adapters.ParkedKey
	var kept []*adapters.Parked
	stored := map[adapters.LaneRef]int64{}
	for i := range settlements {
		t := &settlements[i]
		if slices.Contains(fenced, t.LaneRef) {
			continue
		}
		stored[t.LaneRef] = t.Stored
		for _, seq := range t.Unpark {
			gone = append(gone, adapters.ParkedKey{LaneRef: t.LaneRef, Seq: seq})
		}
		for j := range t.Park {
			p := t.Park[j]
			p.LaneRef = t.LaneRef
			kept = append(kept, &p)
			if p.Seq < t.Stored || p.Was != 0 {
				known = append(known, adapters.ParkedKey{LaneRef: t.LaneRef, Seq: p.Seq})
			}
		}
	}
	for chunk := range slices.Chunk(gone, keysAtOnce) {
		where, args := keys(chunk)
		if _, err := tx.ExecContext(ctx, fill(unparkSQL, where), args...); err != nil {
			return err
		}
	}
	redriven, err := parkedBefore(ctx, tx, known)
	if err != nil {
		return err
	}
	kept = slices.DeleteFunc(kept, func(p *adapters.Parked) bool {
		again, there := redriven[adapters.ParkedKey{LaneRef: p.LaneRef, Seq: p.Seq}]
		return p.Seq < stored[p.LaneRef] && !there || p.Was != 0 && again
	})
	return park(ctx, tx, kept)
}

// keys is the condition that a parked row has one of the keys.
func keys(of []adapters.ParkedKey) (where string, args []any) {
	var b strings.Builder
	for i, k := range of {
		switch {
		case i == 0:
			b.WriteString("(route = ? AND slot = ? AND seq IN (?")
		case k.LaneRef == of[i-1].LaneRef:
			b.WriteString(", ?")
			args = append(args, k.Seq)
			continue
		default:
			b.WriteString(") OR route = ? AND slot = ? AND seq IN (?")
		}
		args = append(args, k.Route, k.Slot, k.Seq)
	}
	b.WriteString("))")
	return b.String(), args
}

// parkedBefore returns those of the rows that are there, and whether an operator has redriven them.
func parkedBefore(ctx context.Context, tx *sql.Tx, of []adapters.ParkedKey) (map[adapters.ParkedKey]bool, error) {
	redriven := map[adapters.ParkedKey]bool{}
	for chunk := range slices.Chunk(of, keysAtOnce) {
		where, args := keys(chunk)
		err := state.Each(ctx, tx, `SELECT route, slot, seq, attempts = 0 AND status = 'retrying' FROM outrider_parked WHERE `+where+` FOR UPDATE`, args,
			func(scan func(...any) error) error {
				var k adapters.ParkedKey
				var again bool
				err := scan(&k.Route, &k.Slot, &k.Seq, &again)
				redriven[k] = again
				return err
			})
		if err != nil {
			return nil, err
		}
	}
	return redriven, nil
}

// park writes rows.
func park(ctx context.Context, tx *sql.Tx, rows []*adapters.Parked) error {
	for len(rows) > 0 {
		n, size := 0, 0
		for n < len(rows) && n < keysAtOnce && (n == 0 || size+len(rows[n].Payload) <= bytesAtOnce) {
			size += len(rows[n].Payload)
			n++
		}
		args := make([]any, 0, 16*n)
		for _, p := range rows[:n] {
			args = append(args, parkedValues(p)...)
		}
		if _, err := tx.ExecContext(ctx, parkSQL+parkRow+strings.Repeat(", "+parkRow, n-1)+parkAgain, args...); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

// parkedValues are the arguments of parkRow.
func parkedValues(p *adapters.Parked) []any {
	c := state.ColumnsOf(p.Route, p)
	var group, hash any
	if c.Group != "" {
		group, hash = c.Group, hashOf(c.Group)
	}
	return []any{p.Route, p.Slot, p.Seq, group, hash, c.Status, p.Attempts, c.DueMicros(), c.Error,
		c.ID, c.Type, p.Position, c.Metadata, c.Payload, c.Tries, c.Failure}
}

// hashOf replaces a text in a key: a key has a maximum size, and texts have none. No two texts have the same one.
func hashOf(packed string) []byte {
	sum := sha256.Sum256([]byte(packed))
	return sum[:16]
}
