package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/staterow"
)

var _ adapters.Operations = (*State)(nil)

// CreateOperation implements [adapters.Operations].
func (s *State) CreateOperation(ctx context.Context, o adapters.Operation) (created adapters.Operation, err error) {
	err = s.operate(ctx, "order an operation", func(tx *sql.Tx) error {
		// The clock of SQL has milliseconds only; what was parked in this one was meant, too.
		created, err = staterow.CreateOperation(ctx, parkedDialect, parkedTx{tx}, o, time.Now())
		return err
	})
	return created, err
}

// ListOperations implements [adapters.Operations].
func (s *State) ListOperations(ctx context.Context, f adapters.OperationFilter) ([]adapters.Operation, error) {
	operations, err := staterow.ListOperations(ctx, parkedDialect, parkedTx{s.db}, f)
	if err != nil {
		return nil, s.wrap("list operations", err)
	}
	return operations, nil
}

// TakeOperation implements [adapters.Operations].
func (s *State) TakeOperation(ctx context.Context, id, worker string, lease time.Duration) (o *adapters.Operation, err error) {
	err = s.operate(ctx, "take an operation", func(tx *sql.Tx) error {
		o, err = staterow.TakeOperation(ctx, parkedDialect, parkedTx{tx}, id, worker, lease)
		return err
	})
	return o, err
}

// StepOperation implements [adapters.Operations].
func (s *State) StepOperation(ctx context.Context, step adapters.OperationStep) (o adapters.Operation, err error) {
	err = s.operate(ctx, "carry out a step of an operation", func(tx *sql.Tx) error {
		o, err = staterow.StepOperation(ctx, parkedDialect, parkedTx{tx}, step, func(m adapters.Move) error { return moveIn(ctx, tx, m) })
		return err
	})
	return o, err
}

// StopOperation implements [adapters.Operations].
func (s *State) StopOperation(ctx context.Context, id, by string) (changed bool, err error) {
	err = s.operate(ctx, "stop an operation", func(tx *sql.Tx) error {
		changed, err = staterow.StopOperation(ctx, parkedDialect, parkedTx{tx}, id, by)
		return err
	})
	return changed, err
}

// ResumeOperation implements [adapters.Operations].
func (s *State) ResumeOperation(ctx context.Context, id, by string) (changed bool, err error) {
	err = s.operate(ctx, "resume an operation", func(tx *sql.Tx) error {
		changed, err = staterow.ResumeOperation(ctx, parkedDialect, parkedTx{tx}, id, by)
		return err
	})
	return changed, err
}

// operate runs f in a transaction. What is wrong with the operation itself needs no context.
func (s *State) operate(ctx context.Context, what string, f func(*sql.Tx) error) error {
	err := s.transact(ctx, f)
	if err == nil || errors.Is(err, adapters.ErrOperationLost) || errors.Is(err, adapters.ErrNoOperation) {
		return err
	}
	return s.wrap(what, err)
}
