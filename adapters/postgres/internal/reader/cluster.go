package reader

import (
	"context"
	"errors"
	"fmt"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
)

// identity returns the system identifier of the database cluster: snapshots are
// made of transaction ids, and those belong to the cluster. The identity
// does not include the database: one that was renamed, or cloned within its cluster, keeps
// its transaction ids. A clone of the cluster has the same identifier, which
// [adapters.Source].Validate detects where it can.
//
// Any user may read it, unless that privilege was revoked; the error then names the
// grant.
func (r *Reader) identity(ctx context.Context) (string, error) {
	id, err := identity(ctx, r.Pool)
	return id, r.kind.Explain("ask for the cluster's system identifier", err)
}

func identity(ctx context.Context, q pg.Querier) (id string, err error) {
	err = q.QueryRow(ctx, "SELECT 'postgresql/' || system_identifier FROM pg_control_system()").Scan(&id)
	return id, err
}

// Validate implements [adapters.Source]. A database that is as far as the cursor
// has given out its transaction ids and its position; one that has not was
// restored or recovered to an earlier point, and its later transactions would
// be taken for delivered.
func (r *Reader) Validate(ctx context.Context, c adapters.Cursor) error {
	if c.IsZero() {
		return nil
	}
	seen, err := NewestSnapshot(c)
	if err != nil {
		return r.kind.Explain("validate the cursor", fmt.Errorf("%w: %w", adapters.ErrForeignCursor, err))
	}
	err = r.Find(ctx)
	if err == nil {
		err = r.validate(ctx, r.Pool, seen.Xmax, &c, true)
	}
	if err == nil {
		err = r.CheckAnchor(ctx, r.Pool, &c)
	}
	return r.kind.Explain("validate the cursor", err)
}

// Fit implements [adapters.SnapshotFitter].
func (r *Reader) Fit(ctx context.Context, cursors []*adapters.Cursor) error {
	var next uint64
	if err := r.Pool.QueryRow(ctx, "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint").Scan(&next); err != nil {
		return r.kind.Explain("ask for the next transaction", err)
	}
	for _, c := range cursors {
		for _, text := range []*string{&c.Snapshot, &c.Window} {
			if snap, err := ParseSnapshot(*text); err == nil && snap.Xmax > next {
				*text = snap.Before(next).Text()
			}
		}
	}
	return nil
}

// NewestSnapshot returns the latest snapshot that a cursor speaks of.
func NewestSnapshot(c adapters.Cursor) (Snapshot, error) {
	if c.Window != "" {
		return ParseSnapshot(c.Window)
	}
	return ParseSnapshot(c.Snapshot)
}

// validate checks whether transaction ids below xmax and the cursor's position have been
// handed out. With fits the cursor is one to which Fit is applied before it is read from. A sequence that is behind, while the row at the cursor is there, was restarted: what it gives out now
// is below the cursor, and comes as rows that are late.
func (r *Reader) validate(ctx context.Context, q pg.Querier, xmax uint64, c *adapters.Cursor, fits bool) error {
	const sql = `
SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint, coalesce(s.name, ''),
       has_sequence_privilege(s.name, 'SELECT'),
       CASE WHEN has_sequence_privilege(s.name, 'SELECT')
            THEN coalesce(pg_sequence_last_value(s.name::regclass), 0) ELSE 0 END
FROM (SELECT pg_get_serial_sequence($1, $2) AS name) s`
	var next, last int64
	var sequence string
	var readable *bool // null: there is no sequence
	if err := q.QueryRow(ctx, sql, r.Quoted, r.kind.Position).Scan(&next, &sequence, &readable, &last); err != nil {
		return err
	}
	// In the tables of others positions may come from elsewhere.
	counted := readable != nil
	stands := func() (bool, error) { // the row at the cursor is there
		if c.Anchor.IsZero() {
			return false, nil
		}
		there, _, err := r.kind.RowAt(ctx, q, c)
		return !there.IsZero() && there.Matches(c.Anchor), err
	}
	var reason string
	switch {
	case !counted && r.kind.Own:
		return ErrNoSequence
	case counted && !*readable:
		return pg.ErrSequenceGrant(sequence)
	case uint64(next) < xmax:
		// A crash forgets the last transactions that were rolled back: if the row at the cursor is there, no position at or below it
		// is given out again, and Fit has the snapshot forget them too.
		if fits && counted && last >= c.Position {
			if c.Position == 0 {
				return nil // nothing of its lane was read
			}
			if ok, err := stands(); err != nil || ok {
				return err
			}
		}
		reason = fmt.Sprintf("its next transaction is %d, the cursor has seen up to %d", next, xmax)
	case counted && last < c.Position && c.Position != 0: // 0 was not given out: nothing of its lane was read
		if last > c.Floor() {
			if ok, err := stands(); err != nil || ok {
				return err
			}
		}
		reason = fmt.Sprintf("its last position is %d, the cursor stands at %d", last, c.Position)
	default:
		return nil
	}
	return r.wentBack("the database is behind the cursor: " + reason)
}

// wentBack is the error for a database that was put back to an earlier state.
func (r *Reader) wentBack(reason string) error {
	command := "rebase"
	if !r.kind.Own {
		command = "seek" // only the own layout can be rebased
	}
	return fmt.Errorf("%s: %w; it was restored or recovered to an earlier point, or failed over without the last commits, "+
		"so that the cursor is not valid in it; `outrider %s` repositions it", reason, adapters.ErrWentBack, command)
}

// ErrNoSequence is the error of a position column without a sequence.
var ErrNoSequence = errors.New(`column position is not an identity column; "outrider init --print" shows the layout`)

// verify refuses to read on from a server that is not where the cursors were.
// Routes were checked when they started; a new connection can lead
// to a standby, to another cluster behind the same name, or to a primary that
// lost the last transactions in a failover.
func (r *Reader) verify(ctx context.Context, q pg.Querier, reads []adapters.Read) error {
	var standby bool
	if err := q.QueryRow(ctx, "SELECT pg_is_in_recovery()").Scan(&standby); err != nil {
		return err
	}
	if standby {
		return pg.ErrStandby
	}
	id, err := identity(ctx, q)
	if err != nil {
		return err
	}
	if r.Cluster != "" && id != r.Cluster {
		was := r.Cluster
		r.Cluster = "" // the cursors of the next fetch have been checked
		return fmt.Errorf("the server is now %s, reading began at %s: %w", id, was, adapters.ErrWentBack)
	}
	var xmax uint64
	var furthest adapters.Cursor
	for i := range reads {
		seen, err := NewestSnapshot(reads[i].From)
		if err != nil {
			return err
		}
		xmax = max(xmax, seen.Xmax)
		if from := reads[i].From; i == 0 || from.Position > furthest.Position {
			furthest = from
		}
	}
	if err := r.validate(ctx, q, xmax, &furthest, false); err != nil {
		return err
	}
	checked := map[adapters.Cursor]bool{}
	for i := range reads {
		place := adapters.Cursor{Position: reads[i].From.Position, Snapshot: reads[i].From.Snapshot, Base: reads[i].From.Base, Anchor: reads[i].From.Anchor}
		if !checked[place] {
			checked[place] = true
			if err := r.CheckAnchor(ctx, q, &place); err != nil {
				return err
			}
		}
	}
	r.Cluster = id
	return nil
}
