package statestore

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/outriderhq/outrider/adapters"
)

// FollowProgress implements [adapters.ProgressStore].
func (s *Store) FollowProgress(ctx context.Context) ([]adapters.Progress, error) {
	b := s.progress.Load()
	if b == nil {
		return nil, nil
	}
	var out []adapters.Progress
	for _, t := range b.tables {
		found, err := s.readProgress(ctx, t, t.follow, t.routes, t.topics, t.publishers)
		if err == nil && slices.ContainsFunc(found, missing) {
			if err = s.RegisterProgress(ctx); err == nil {
				found, err = s.readProgress(ctx, t, t.follow, t.routes, t.topics, t.publishers)
			}
		}
		if err != nil {
			return nil, err
		}
		out = append(out, slices.DeleteFunc(found, missing)...)
	}
	return out, nil
}

// AgreePositions implements [adapters.ProgressStore].
func (s *Store) AgreePositions(ctx context.Context, positions map[string]int64) error {
	b := s.progress.Load()
	if b == nil {
		return nil
	}
	for _, t := range b.tables {
		of, topics, publishers := t.of(slices.Collect(maps.Keys(positions)))
		if len(positions) == 0 || len(of) == 0 {
			continue
		}
		at := make([]int64, len(of))
		for i, route := range of {
			at[i] = positions[route]
		}
		if _, err := s.pool.Exec(ctx, t.agreePositions, t.name, of, topics, publishers, at); err != nil {
			return stateError("note the positions in the table of progress "+t.name, err)
		}
	}
	return nil
}

// AgreeStatus implements [adapters.ProgressStore].
func (s *Store) AgreeStatus(ctx context.Context, route, status string) error {
	r, t, err := s.progress.Load().row(route)
	if err != nil {
		return err
	}
	_, err = s.pool.Exec(ctx, t.agreeStatus, t.name, route, r.Topic, r.Publisher, status)
	return stateError(fmt.Sprintf("note the status of route %q", route), err)
}
