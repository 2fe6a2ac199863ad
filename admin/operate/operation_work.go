package operate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"golang.org/x/time/rate"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/internal/failpoint"
)

// work is an operation in the hands of its worker.
type work struct {
	op      *Operator
	store   adapters.OperatorStore
	now     adapters.Operation // as the last step left it
	size    int                // messages of a step at most
	limiter *rate.Limiter
	told    func(adapters.Operation) // after each step; optional
}

// keptFor is how often a worker that waits shows that it lives, and looks whether the operation
// was stopped.
const keptFor = time.Second

// errorsMost is how often in a row a step may fail before the operation does. While a database
// is away it waits.
const errorsMost = 30

// work takes an operation and carries it out until it ends, is stopped, or ctx ends: then
// the current step is finished and the operation given up, so that another worker continues
// at once. It returns the operation as it is then; nil when another worker has it.
func (op *Operator) work(ctx context.Context, store adapters.OperatorStore, id, worker string, told func(adapters.Operation)) (*adapters.Operation, error) {
	taken, err := store.TakeOperation(ctx, id, worker, operationLease)
	if err != nil || taken == nil {
		return nil, err
	}
	w := &work{op: op, store: store, now: *taken, told: told}
	w.size, w.limiter = stepsOf(taken.Rate)
	for failures := 0; w.now.State == adapters.OperationRunning; {
		if ctx.Err() != nil {
			err = w.step(ctx, adapters.OperationStep{}) // given up
			break
		}
		if err = w.next(ctx); err == nil {
			failures = 0
			continue
		}
		failures++
		if errors.Is(err, adapters.ErrOperationLost) || !w.recover(ctx, failures, err) {
			break
		}
		err = nil
	}
	if errors.Is(err, adapters.ErrOperationLost) {
		err = w.read(ctx)
	}
	return &w.now, err
}

// recover is what follows on a step that failed: it ends the operation when no other attempt would
// succeed, and otherwise waits and finds out whether the step counts.
func (w *work) recover(ctx context.Context, failures int, cause error) (again bool) {
	if ctx.Err() == nil && (IsForbidden(cause) || !IsUnavailable(cause) && failures >= errorsMost) {
		return w.step(ctx, adapters.OperationStep{End: adapters.OperationFailed, Error: cause.Error()}) == nil
	}
	for {
		timer := time.NewTimer(keptFor)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return true
		}
		if w.read(ctx) == nil {
			return true
		}
	}
}

// read takes over what the store says of the operation.
func (w *work) read(ctx context.Context) error {
	found, err := w.store.ListOperations(context.WithoutCancel(ctx), adapters.OperationFilter{ID: w.now.ID, Limit: 1})
	if err != nil || len(found) == 0 {
		return err
	}
	epoch := w.now.Epoch
	w.now = found[0]
	w.now.Epoch = epoch // ours: if another one has it, the next step is refused
	return nil
}

// step carries a step out. It is never cut off: whether it counts must be known.
func (w *work) step(ctx context.Context, s adapters.OperationStep) error {
	s.ID, s.Epoch = w.now.ID, w.now.Epoch
	after, err := w.store.StepOperation(context.WithoutCancel(ctx), s)
	if err != nil {
		return err
	}
	w.now = after
	if s.Parked > 0 {
		failpoint.Hit(failpoint.OperationStep)
	}
	if w.told != nil {
		w.told(after)
	}
	return nil
}

// keeping is a step that the worker does not give the operation up with.
func (w *work) keeping(ctx context.Context, s adapters.OperationStep) error {
	s.Lease = operationLease
	return w.step(ctx, s)
}

// left is how many messages may still be changed by the limit of the order.
func (w *work) left() int {
	if w.now.Filter.Limit == 0 {
		return math.MaxInt
	}
	return w.now.Filter.Limit - w.now.Done
}

// next carries out the next step.
func (w *work) next(ctx context.Context) error {
	o := &w.now
	switch {
	case o.Kind == adapters.OperationSeek && o.Place.Route < len(o.Routes):
		return w.seek(ctx)
	case len(o.Place.Pending) > 0:
		return w.change(ctx)
	case o.Kind == adapters.OperationSeek, w.left() <= 0, o.Place.ParkedOver && o.Place.Source >= len(o.Sources):
		return w.step(ctx, adapters.OperationStep{End: adapters.OperationDone})
	case !o.Place.ParkedOver:
		n := min(w.size, w.left())
		if err := w.wait(ctx, n); err != nil {
			return err
		}
		return w.keeping(ctx, adapters.OperationStep{Parked: n})
	}
	return w.find(ctx)
}

// wait waits until the rate lets so many messages through, and keeps the operation meanwhile.
func (w *work) wait(ctx context.Context, n int) error {
	until := time.Now().Add(w.limiter.ReserveN(time.Now(), n).Delay())
	for {
		pause := min(time.Until(until), keptFor, operationLease/4)
		if pause <= 0 {
			return ctx.Err()
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
		if time.Until(until) > 0 {
			if err := w.keeping(ctx, adapters.OperationStep{}); err != nil {
				return err
			}
		}
	}
}

// find finds the next dead rows of a source and writes down that they are about to be
// changed, which change does.
func (w *work) find(ctx context.Context) error {
	place := w.now.Place
	source, err := w.source(ctx)
	if err != nil {
		return err
	}
	f, _ := inTables(adapters.ParkedCommand{Action: adapters.ParkedAction(w.now.Kind), Filter: w.now.Filter})
	page, err := source.page(ctx, f, place.Dead, min(w.size, w.left()), false)
	if err != nil {
		return fmt.Errorf("source %q: %w", source.name, err)
	}
	if page.last == (adapters.DeadKey{}) {
		place.Source, place.Dead = place.Source+1, adapters.DeadKey{}
		return w.keeping(ctx, adapters.OperationStep{Place: &place})
	}
	if place.Dead, place.Pending = page.last, page.keys; len(page.keys) > 0 {
		if err := w.wait(ctx, len(page.keys)); err != nil {
			return err
		}
	}
	return w.keeping(ctx, adapters.OperationStep{Place: &place})
}

// change changes the rows that were written down as pending, and then counts them. Whoever was killed
// in between may have changed them: those are dead no more, and were the operation's
// all the same.
func (w *work) change(ctx context.Context) error {
	place := w.now.Place
	source, err := w.source(ctx)
	if err != nil {
		return err
	}
	// Who was frozen, and does not have it any more, changes nothing.
	failpoint.Hit(failpoint.OperationPending)
	ours := func(ctx context.Context, _ int) error { return w.keeping(ctx, adapters.OperationStep{}) }
	if _, err := source.rows.ChangeDead(context.WithoutCancel(ctx), adapters.ParkedAction(w.now.Kind), place.Pending, ours); err != nil {
		return fmt.Errorf("source %q: %w", source.name, err)
	}
	failpoint.Hit(failpoint.OperationChanged)
	done := len(place.Pending)
	place.Pending = nil
	return w.keeping(ctx, adapters.OperationStep{Done: done, Place: &place})
}

// source is the queue whose dead rows are next.
func (w *work) source(ctx context.Context) (*deadSource, error) {
	name := w.now.Sources[w.now.Place.Source]
	all, err := w.op.deadSources(ctx, adapters.ParkedFilter{})
	if err != nil {
		return nil, err
	}
	for _, s := range all {
		if s.name == name {
			return s, nil
		}
	}
	return nil, fmt.Errorf("source %q is no queue of this configuration any more", name)
}

// seek moves the next route. One that cannot be moved is counted as failed.
func (w *work) seek(ctx context.Context) error {
	if err := w.wait(ctx, 1); err != nil {
		return err
	}
	o := &w.now
	route, place := o.Routes[o.Place.Route], o.Place
	place.Route++
	plan, err := w.plan(ctx, route)
	switch {
	case err != nil && IsUnavailable(err):
		return err
	case err != nil:
		return w.keeping(ctx, adapters.OperationStep{Place: &place, Failed: 1, Error: err.Error()})
	}
	plan.move.By = o.By
	return w.keeping(ctx, adapters.OperationStep{Place: &place, Done: 1, Move: &plan.move})
}

func (w *work) plan(ctx context.Context, route string) (*Relocation, error) {
	to, err := ParseTarget(w.now.To, w.now.CreatedAt)
	if err != nil {
		return nil, err
	}
	return w.op.PlanSeek(ctx, route, to)
}
