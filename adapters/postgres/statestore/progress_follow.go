package statestore

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/sqltext"
	"github.com/outriderhq/outrider/adapters/internal/state"
)

// FollowProgress implements [adapters.ProgressStore].
func (s *Store) FollowProgress(ctx context.Context) ([]adapters.Progress, error) {
	b := s.progress.Load()
	if b == nil {
		return nil, nil
	}
	var out []adapters.Progress
	for _, t := range b.tables {
		found, err := readProgress(ctx, s.pool, t, t.follow, t.routes, t.topics, t.publishers)
		if err == nil && slices.ContainsFunc(found, missing) {
			if err = s.RegisterProgress(ctx); err == nil {
				found, err = readProgress(ctx, s.pool, t, t.follow, t.routes, t.topics, t.publishers)
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
	err := s.carryOut(ctx, route, func(tx pgx.Tx, t *progressTable, now *adapters.Progress) error {
		if now.Status != status || !now.Ordered() {
			return errRowChanged
		}
		commands, pause := s.within(stateRows{tx}), adapters.Pause{Route: route, Reason: status, By: progressAuthor}
		var err error
		switch {
		case status == adapters.ProgressActive:
			held := adapters.ParkedFilter{Route: route, Status: adapters.ParkedHeld}
			if _, err = commands.Resume(ctx, pause); err == nil {
				_, err = commands.ChangeParked(ctx, adapters.ParkedCommand{Action: adapters.ParkedRedrive, By: progressAuthor, Filter: held})
			}
		case status != now.Own:
			_, err = commands.Pause(ctx, pause)
		}
		if err != nil {
			return err
		}
		return noted(tx.Exec(ctx, t.agreeStatus, t.name, route, now.Topic, now.Publisher, status))
	})
	return stateError(fmt.Sprintf("carry out the status of route %q", route), err)
}

// Forget implements [adapters.StateStore]. A route that is in the configuration begins again, so its row does, too.
func (s *Store) Forget(ctx context.Context, route string, force bool, by string) (gone adapters.DeletedRoute, err error) {
	err = s.transact(ctx, func(tx state.Tx) error {
		if gone, err = s.within(tx).Forget(ctx, route, force, by); err != nil {
			return err
		}
		if r, t, none := s.progress.Load().row(route); none == nil {
			_, err = tx.Exec(ctx, sqltext.Raw(t.reset, r.Topic, r.Publisher))
		}
		return stateError(fmt.Sprintf("begin the row of route %q anew", route), err)
	})
	return gone, err
}

// within are the commands of operators as parts of a transaction.
func (s *Store) within(tx state.Tx) *state.Operators {
	db := s.database()
	db.Transact = func(_ context.Context, f func(state.Tx) error) error { return f(tx) }
	return state.NewOperators(db)
}
