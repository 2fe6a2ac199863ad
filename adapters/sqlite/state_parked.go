package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/sqlvalue"
	"github.com/outriderhq/outrider/adapters/internal/staterow"
)

const (
	// parkedGroupsSQL summarises by group; a message without one is a group of
	// its own. The columns beside min(seq) are those of the row that has it, as
	// SQLite defines it for a query with a single min.
	parkedGroupsSQL = `
SELECT coalesce(message_group, ''), count(*), min(seq) AS first, status, next_attempt_at
FROM outrider_parked WHERE route = ? AND slot = ? AND status <> 'dead'
GROUP BY message_group, CASE WHEN message_group IS NULL THEN seq END
ORDER BY first`

	parkedFields = `route, slot, seq, coalesce(message_group, ''), status, attempts, next_attempt_at, last_error,
    parked_at, event_id, event_type, position, metadata, payload, tries`

	parkedQueueSQL = `SELECT ` + parkedFields + ` FROM outrider_parked
WHERE route = ? AND slot = ? AND status <> 'dead' AND message_group IS nullif(?, '') AND seq > ?
ORDER BY seq LIMIT ?`
)

// ParkedGroups implements [adapters.StateStore].
func (s *State) ParkedGroups(ctx context.Context, route string, slots []int) ([]adapters.ParkedGroup, error) {
	var all []adapters.ParkedGroup
	for _, slot := range slices.Sorted(slices.Values(slots)) {
		groups, err := s.parkedGroups(ctx, route, slot)
		if err != nil {
			return nil, s.wrap(fmt.Sprintf("read the parked groups of %s/%02d", route, slot), err)
		}
		all = append(all, groups...)
	}
	return all, nil
}

func (s *State) parkedGroups(ctx context.Context, route string, slot int) ([]adapters.ParkedGroup, error) {
	rows, err := s.db.QueryContext(ctx, parkedGroupsSQL, route, slot)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // Err returns the error
	var groups []adapters.ParkedGroup
	for rows.Next() {
		g := adapters.ParkedGroup{Slot: slot}
		var status string
		var due sql.NullInt64
		if err := rows.Scan(&g.Group, &g.Count, &g.FirstSeq, &status, &due); err != nil {
			return nil, err
		}
		g.Group = staterow.Unpack(g.Group)
		g.Held = status == string(adapters.ParkedHeld)
		if status == string(adapters.ParkedRetrying) {
			g.Due = instantOf(due)
		}
		groups = append(groups, g)
	}
	return groups, rows.Err()
}

// ParkedQueue returns the messages of one group that are not dead, by ascending
// seq. For the empty group these are the lane's messages without a group.
func (s *State) ParkedQueue(ctx context.Context, lane adapters.LaneRef, group string, after int64, limit int) ([]adapters.Parked, error) {
	if group != "" {
		group = staterow.Pack(group)
	}
	parked, err := s.queryParked(ctx, parkedQueueSQL, lane.Route, lane.Slot, group, after, limit)
	if err != nil {
		return nil, s.wrap(fmt.Sprintf("read a parked group of %s/%02d", lane.Route, lane.Slot), err)
	}
	return parked, nil
}

func (s *State) queryParked(ctx context.Context, query string, args ...any) ([]adapters.Parked, error) {
	rows, err := s.db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // Err returns the error
	parked := []adapters.Parked{}
	for rows.Next() {
		p, err := scanParked(rows)
		if err != nil {
			return nil, err
		}
		parked = append(parked, p)
	}
	return parked, rows.Err()
}

// scanParked reads a row of [parkedFields].
func scanParked(rows *sql.Rows) (p adapters.Parked, err error) {
	var status, metadata, tries string
	var due, at sql.NullInt64
	err = rows.Scan(&p.Route, &p.Slot, &p.Seq, &p.Group, &status, &p.Attempts, &due, &p.LastError,
		&at, &p.ID, &p.Type, &p.Position, &metadata, (*sqlvalue.Bytes)(&p.Payload), &tries)
	if err != nil {
		return p, err
	}
	p.Group, p.ID, p.Type = staterow.Unpack(p.Group), staterow.Unpack(p.ID), staterow.Unpack(p.Type)
	p.Status, p.Tries = adapters.ParkedStatus(status), staterow.DecodeTries(tries)
	p.NextAttemptAt, p.ParkedAt = instantOf(due), instantOf(at)
	if p.Metadata, err = staterow.DecodeMetadata(metadata); err != nil {
		return p, fmt.Errorf("outrider_parked %s/%02d seq %d: %w", p.Route, p.Slot, p.Seq, err)
	}
	return p, nil
}

// instantOf is the time of a column of microseconds; NULL is the zero time.
func instantOf(micros sql.NullInt64) time.Time {
	if !micros.Valid {
		return time.Time{}
	}
	return time.UnixMicro(micros.Int64).UTC()
}
