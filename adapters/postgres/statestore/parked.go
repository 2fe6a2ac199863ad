package statestore

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/staterow"
)

const (
	// parkedGroupsSQL summarises by group; a message without one is a group of
	// its own. The first message of each says when it continues.
	parkedGroupsSQL = `
SELECT p.slot, coalesce(p.message_group, ''), g.messages, p.seq, p.status,
    CASE WHEN p.status = 'retrying' THEN p.next_attempt_at END, p.parked_at
FROM (
    SELECT slot, min(seq) AS first, count(*) AS messages FROM outrider_parked
    WHERE route = $1 AND slot = ANY($2::smallint[]) AND status <> 'dead'
    GROUP BY slot, message_group, CASE WHEN message_group IS NULL THEN seq END
) g
JOIN outrider_parked p ON p.route = $1 AND p.slot = g.slot AND p.seq = g.first
ORDER BY p.slot, p.seq`

	parkedFields = `route, slot, seq, coalesce(message_group, ''), status, attempts, next_attempt_at, last_error,
    parked_at, event_id, event_type, position, metadata::text, payload, tries`

	parkedQueueSQL = `
SELECT ` + parkedFields + ` FROM outrider_parked
WHERE route = $1 AND slot = $2 AND status <> 'dead' AND seq > $4
  AND hashtextextended(coalesce(message_group, ''), 0) = hashtextextended($3, 0)
  AND coalesce(message_group, '') = $3
ORDER BY seq LIMIT $5`
)

// ParkedGroups implements [adapters.StateStore].
func (s *Store) ParkedGroups(ctx context.Context, route string, slots []int) ([]adapters.ParkedGroup, error) {
	rows, err := s.pool.Query(ctx, parkedGroupsSQL, route, slots)
	if err != nil {
		return nil, stateError("read the parked groups of "+route, err)
	}
	groups, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (g adapters.ParkedGroup, err error) {
		var status string
		var due *time.Time
		err = row.Scan(&g.Slot, &g.Group, &g.Count, &g.FirstSeq, &status, &due, &g.Since)
		g.Group = staterow.Unpack(g.Group)
		g.Held = status == string(adapters.ParkedHeld)
		if due != nil {
			g.Due = *due
		}
		return g, err
	})
	return groups, stateError("read the parked groups of "+route, err)
}

// ParkedQueue returns the messages of one group that are not dead, by ascending
// seq. For the empty group these are the lane's messages without a group.
func (s *Store) ParkedQueue(ctx context.Context, lane adapters.LaneRef, group string, after int64, limit int) ([]adapters.Parked, error) {
	if group != "" {
		group = staterow.Pack(group)
	}
	parked, err := s.queryParked(ctx, parkedQueueSQL, lane.Route, lane.Slot, group, after, limit)
	return parked, stateError(fmt.Sprintf("read a parked group of %s/%02d", lane.Route, lane.Slot), err)
}

func (s *Store) queryParked(ctx context.Context, sql string, args ...any) ([]adapters.Parked, error) {
	rows, err := s.pool.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scanParked)
}

// scanParked reads a row of [parkedFields].
func scanParked(row pgx.CollectableRow) (p adapters.Parked, err error) {
	var status, metadata, tries string
	var due *time.Time
	err = row.Scan(&p.Route, &p.Slot, &p.Seq, &p.Group, &status, &p.Attempts, &due, &p.LastError,
		&p.ParkedAt, &p.ID, &p.Type, &p.Position, &metadata, &p.Payload, &tries)
	if err != nil {
		return p, err
	}
	p.Group, p.ID, p.Type = staterow.Unpack(p.Group), staterow.Unpack(p.ID), staterow.Unpack(p.Type)
	p.Status, p.Tries = adapters.ParkedStatus(status), staterow.DecodeTries(tries)
	if due != nil {
		p.NextAttemptAt = *due
	}
	if p.Metadata, err = staterow.DecodeMetadata(metadata); err != nil {
		return p, fmt.Errorf("outrider_parked %s/%02d seq %d: %w", p.Route, p.Slot, p.Seq, err)
	}
	return p, nil
}
