package statestore

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/staterow"
)

const (
	// parkedGroupsSQL summarises by group; a message without one is a group of
	// its own. The first message of each says when it continues. Everything but that one is read from an index.
	parkedGroupsSQL = `
SELECT p.slot, coalesce(p.message_group, ''), g.messages, p.seq, p.status, p.next_attempt_at, p.parked_at
FROM (
    SELECT slot, min(seq) AS first_seq, count(*) AS messages FROM outrider_parked
    WHERE route = ? AND slot IN % AND flows = 1
    GROUP BY slot, group_hash, CASE WHEN group_hash IS NULL THEN seq END
) AS g
STRAIGHT_JOIN outrider_parked AS p ON p.route = ? AND p.slot = g.slot AND p.seq = g.first_seq
ORDER BY p.slot, p.seq`

	parkedFields = `route, slot, seq, coalesce(message_group, ''), status, attempts, next_attempt_at, last_error,
    parked_at, event_id, event_type, position, metadata, payload, tries`

	parkedQueueSQL = `SELECT ` + parkedFields + ` FROM outrider_parked
WHERE route = ? AND slot = ? AND flows = 1 AND group_hash <=> ? AND seq > ?
ORDER BY seq LIMIT ?`
)

// ParkedGroups implements [adapters.StateStore].
func (s *Store) ParkedGroups(ctx context.Context, route string, slots []int) (groups []adapters.ParkedGroup, err error) {
	if len(slots) == 0 {
		return nil, nil
	}
	in, args := inSlots(slots)
	args = append(append([]any{route}, args...), route)
	err = each(ctx, s.db, replace(parkedGroupsSQL, in), args, func(scan func(...any) error) error {
		var g adapters.ParkedGroup
		var status string
		var due sql.NullInt64
		var since int64
		err := scan(&g.Slot, &g.Group, &g.Count, &g.FirstSeq, &status, &due, &since)
		g.Group, g.Since = staterow.Unpack(g.Group), time.UnixMicro(since)
		g.Held = status == string(adapters.ParkedHeld)
		if status == string(adapters.ParkedRetrying) {
			g.Due = instantOf(due)
		}
		groups = append(groups, g)
		return err
	})
	return groups, stateError("read the parked groups of "+route, err)
}

// ParkedQueue returns the messages of one group that are not dead, by ascending
// seq. For the empty group these are the lane's messages without a group.
func (s *Store) ParkedQueue(ctx context.Context, lane adapters.LaneRef, group string, after int64, limit int) ([]adapters.Parked, error) {
	var hash any
	if group != "" {
		hash = hashOf(staterow.Pack(group))
	}
	parked, err := s.queryParked(ctx, parkedQueueSQL, lane.Route, lane.Slot, hash, after, limit)
	return parked, stateError(fmt.Sprintf("read a parked group of %s/%02d", lane.Route, lane.Slot), err)
}

func (s *Store) queryParked(ctx context.Context, query string, args ...any) ([]adapters.Parked, error) {
	parked := []adapters.Parked{}
	err := each(ctx, s.db, query, args, func(scan func(...any) error) error {
		p, err := scanParked(scan)
		parked = append(parked, p)
		return err
	})
	return parked, err
}

// scanParked reads a row of [parkedFields].
func scanParked(scan func(...any) error) (p adapters.Parked, err error) {
	var status, metadata, tries string
	var due, at sql.NullInt64
	err = scan(&p.Route, &p.Slot, &p.Seq, &p.Group, &status, &p.Attempts, &due, &p.LastError,
		&at, &p.ID, &p.Type, &p.Position, &metadata, &p.Payload, &tries)
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
