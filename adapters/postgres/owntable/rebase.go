package owntable

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/sqltext"
	"github.com/outriderhq/outrider/adapters/postgres/internal/reader"
)

// How a cursor is repositioned in a database that was restored.
//
// A dump keeps positions and transaction ids as they were, so the old snapshot
// still shows which rows at or below the old position it did not cover: those
// were not delivered. After a recovery to an earlier point positions are given
// out a second time, and rows written since look delivered; they were created
// after the cursor was last settled. The new cursor is before the first of
// either, and not behind the last position: what is between comes again.
//
// Transaction ids up to here mean nothing from now on, which is what the base
// says. It must not cover a row that becomes visible later; so before it is
// taken, transactions that write to the table now have to end.

// rebaseSkew is how far the clocks of the state store and of the database may
// be apart.
const rebaseSkew = 10 * time.Second

const firstUncoveredSQL = `
SELECT coalesce(min(o.position), 0) FROM {table} o
WHERE o.slot = $1 AND o.position > $2 AND o.position <= $3
  AND (NOT pg_visible_in_snapshot(o.xid, $4::pg_snapshot) OR o.created_at > $5)`

var _ adapters.Rebaser = (*Source)(nil)

// Rebase implements [adapters.Rebaser]. It reads all rows up to the cursors once.
func (s *Source) Rebase(ctx context.Context, lanes []adapters.LaneStatus) (map[int]adapters.Cursor, error) {
	if err := s.base.Find(ctx); err != nil {
		return nil, s.base.Explain("rebase", err)
	}
	last, err := s.awaitWriters(ctx)
	if err != nil {
		return nil, s.base.Explain("rebase", err)
	}
	var snap string
	if err := s.base.Pool.QueryRow(ctx, "SELECT pg_current_snapshot()::text").Scan(&snap); err != nil {
		return nil, s.base.Explain("rebase", err)
	}
	out := make(map[int]adapters.Cursor, len(lanes))
	for _, l := range lanes {
		position, err := s.rebased(ctx, l)
		if err != nil {
			return nil, s.base.Explain(fmt.Sprintf("rebase slot %d", l.Slot), err)
		}
		out[l.Slot] = adapters.Cursor{Position: min(position, last), Snapshot: snap, Base: last}
	}
	return out, nil
}

// rebased is where a lane's cursor stood, or before the first row below that it
// had not covered.
func (s *Source) rebased(ctx context.Context, l adapters.LaneStatus) (int64, error) {
	c := l.Cursor
	if l.UpdatedAt.IsZero() || c.Snapshot == "" {
		return s.beginning(ctx) // never settled
	}
	same, since, err := s.since(ctx, &l)
	if err != nil {
		return 0, err
	}
	var first int64
	err = s.base.Pool.QueryRow(ctx, sqltext.Fill(firstUncoveredSQL, sqltext.Names{"table": s.base.Quoted}), int16(l.Slot), c.Floor(), c.Position, c.Snapshot, since).Scan(&first)
	switch {
	case err != nil:
		return 0, err
	case first > 0:
		return first - 1, nil
	case !same: // no row is known to be new, but the one at the cursor is: times of creation show nothing here
		return s.beginning(ctx)
	}
	return c.Position, nil
}

// since returns the time after which rows at or below a cursor were created that it
// does not cover, and whether the row at its position is the one that was there.
//
// Of a table that was put back all rows behind the last common one are new. When the
// cursor was settled last says nothing of that: what was in flight is settled after
// the table was put back, too. The row at the cursor was created before that.
func (s *Source) since(ctx context.Context, l *adapters.LaneStatus) (same bool, at time.Time, err error) {
	at = l.UpdatedAt.Add(-rebaseSkew)
	if l.Cursor.Anchor.IsZero() {
		return true, at, nil // an old cursor, or one that was placed here
	}
	switch err = s.base.CheckAnchor(ctx, s.base.Pool, &l.Cursor); {
	case errors.Is(err, adapters.ErrWentBack):
		if born := time.UnixMicro(l.Cursor.Anchor.Born).Add(-rebaseSkew); born.Before(at) {
			at = born
		}
		return false, at, nil
	case err != nil:
		return false, at, err
	}
	return true, at, nil
}

// awaitWriters returns the last position that was given out when it was called,
// once no transaction from before then can write at or below it any more.
func (s *Source) awaitWriters(ctx context.Context) (int64, error) {
	var last int64
	if err := s.base.Pool.QueryRow(ctx, reader.LastPositionSQL, s.base.Quoted).Scan(&last); err != nil {
		return 0, err
	}
	waiting, err := s.base.Writers(ctx)
	for err == nil && len(waiting) > 0 {
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("transactions that write to the table have not ended (%s): end them and try again", strings.Join(waiting, "; "))
		case <-time.After(50 * time.Millisecond):
		}
		var now []string
		now, err = s.base.Writers(ctx)
		waiting = reader.Common(waiting, now)
	}
	return last, err
}
