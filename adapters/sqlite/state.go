package sqlite

import (
	"context"

	"github.com/outriderhq/outrider/adapters/sqlite/statestore"
)

// State is [statestore.Store].
//
// Deprecated: use [statestore.Store].
type State = statestore.Store

// StateConfig is [statestore.Config].
//
// Deprecated: use [statestore.Config].
type StateConfig = statestore.Config

// NewState is [statestore.New].
//
// Deprecated: use [statestore.New].
func NewState(ctx context.Context, cfg StateConfig) (*State, error) { return statestore.New(ctx, cfg) }
