package statestore

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/staterow"
)

var _ adapters.Operations = (*Store)(nil)

// CreateOperation implements [adapters.Operations].
func (s *Store) CreateOperation(ctx context.Context, o adapters.Operation) (created adapters.Operation, err error) {
	err = s.operate(ctx, "order an operation", func(tx *sql.Tx) error {
		created, err = staterow.CreateOperation(ctx, parkedDialect, parkedTx{tx}, o, time.Time{})
		return err
	})
	return created, err
}

// ListOperations implements [adapters.Operations].
func (s *Store) ListOperations(ctx context.Context, f adapters.OperationFilter) ([]adapters.Operation, error) {
	operations, err := staterow.ListOperations(ctx, parkedDialect, parkedTx{s.db}, f)
	return operations, stateError("list operations", err)
}

// TakeOperation implements [adapters.Operations].
func (s *Store) TakeOperation(ctx context.Context, id, worker string, lease time.Duration) (o *adapters.Operation, err error) {
	err = s.operate(ctx, "take an operation", func(tx *sql.Tx) error {
		o, err = staterow.TakeOperation(ctx, parkedDialect, parkedTx{tx}, id, worker, lease)
		return err
	})
	return o, err
}

// StepOperation implements [adapters.Operations].
func (s *Store) StepOperation(ctx context.Context, step adapters.OperationStep) (o adapters.Operation, err error) {
	err = s.operate(ctx, "carry out a step of an operation", func(tx *sql.Tx) error {
		o, err = staterow.StepOperation(ctx, parkedDialect, parkedTx{tx}, step, func(m adapters.Move) error { return moveIn(ctx, tx, m) })
		return err
	})
	return o, err
}

// StopOperation implements [adapters.Operations].
func (s *Store) StopOperation(ctx context.Context, id, by string) (changed bool, err error) {
	err = s.operate(ctx, "stop an operation", func(tx *sql.Tx) error {
		changed, err = staterow.StopOperation(ctx, parkedDialect, parkedTx{tx}, id, by)
		return err
	})
	return changed, err
}

// ResumeOperation implements [adapters.Operations].
func (s *Store) ResumeOperation(ctx context.Context, id, by string) (changed bool, err error) {
	err = s.operate(ctx, "resume an operation", func(tx *sql.Tx) error {
		changed, err = staterow.ResumeOperation(ctx, parkedDialect, parkedTx{tx}, id, by)
		return err
	})
	return changed, err
}

// operate runs f in a transaction. What is wrong with the operation itself needs no context.
func (s *Store) operate(ctx context.Context, what string, f func(*sql.Tx) error) error {
	err := s.transact(ctx, f)
	if errors.Is(err, adapters.ErrOperationLost) || errors.Is(err, adapters.ErrNoOperation) {
		return err
	}
	return stateError(what, err)
}
