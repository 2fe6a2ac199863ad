package state

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/sqltext"
)

// operationFields are the columns of an operation, as readOperation reads them.
func (db *Database) operationFields() string {
	return strings.Join([]string{"id", "kind", "subject", "place", "rate", "{by}", "state", "total", "done", "failed", "error", db.micros("created_at"),
		db.known("started_at"), db.micros("updated_at"), db.known("ended_at"), "owner", "epoch", db.known("lease_until") + " - " + db.micros("{now}"), db.known("taken_at"), "taken_done"}, ", ")
}

// operations reads those that a statement selects.
func operations(ctx context.Context, tx Tx, s *sqltext.Statement) (out []adapters.Operation, err error) {
	err = tx.Each(ctx, s, func(scan func(...any) error) error {
		var o adapters.Operation
		var kind, subject, place, state string
		var created, started, updated, ended, left, taken int64
		if err := scan(&o.ID, &kind, &subject, &place, &o.Rate, &o.By, &state, &o.Total, &o.Done, &o.Failed, &o.Error, &created,
			&started, &updated, &ended, &o.Worker, &o.Epoch, &left, &taken, &o.TakenDone); err != nil {
			return err
		}
		o.Kind, o.State = adapters.OperationKind(kind), adapters.OperationState(state)
		o.CreatedAt, o.StartedAt, o.UpdatedAt, o.EndedAt, o.TakenAt = instant(created), instant(started), instant(updated), instant(ended), instant(taken)
		if o.Worker != "" {
			o.Left = time.Duration(left) * time.Microsecond
		}
		err := decodeOperation(&o, subject, place)
		out = append(out, o)
		return err
	})
	return out, err
}

// ListOperations implements [adapters.OperatorStore].
func (o *Operators) ListOperations(ctx context.Context, f adapters.OperationFilter) ([]adapters.Operation, error) {
	s := o.db.query("SELECT " + o.db.operationFields() + " FROM outrider_operation WHERE true")
	if f.ID != "" {
		s.And(" AND id = ?", Pack(f.ID))
	}
	if f.Active {
		s.And(" AND state IN ('planned', 'running')")
	}
	if f.Before != "" {
		s.And(" AND id < ?", Pack(f.Before))
	}
	found, err := operations(ctx, o.db.Pool, s.And(" ORDER BY id DESC LIMIT ?", cmp.Or(f.Limit, adapters.DefaultParkedList)))
	return found, o.db.Wrap("list operations", err)
}

// lockOperation reads one and keeps others from changing it until the transaction ends.
func (db *Database) lockOperation(ctx context.Context, tx Tx, id string) (o adapters.Operation, err error) {
	found, err := operations(ctx, tx, db.query("SELECT "+db.operationFields()+" FROM outrider_operation WHERE id = ?{lock}", Pack(id)))
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("operation %s: %w", id, adapters.ErrNoOperation)
	}
	if err != nil {
		return o, err
	}
	return found[0], nil
}

// CreateOperation implements [adapters.OperatorStore].
func (o *Operators) CreateOperation(ctx context.Context, of adapters.Operation) (created adapters.Operation, err error) {
	err = o.operate(ctx, "order an operation", func(tx Tx) error {
		created, err = o.db.createOperation(ctx, tx, of)
		return err
	})
	return created, err
}

// operate runs f in a transaction. An error of the operation itself needs no context.
func (o *Operators) operate(ctx context.Context, what string, f func(tx Tx) error) error {
	err := o.db.Transact(ctx, f)
	if errors.Is(err, adapters.ErrOperationLost) || errors.Is(err, adapters.ErrNoOperation) {
		return err
	}
	return o.db.Wrap(what, err)
}

// createOperation writes an operation down and removes those that ended long ago.
func (db *Database) createOperation(ctx context.Context, tx Tx, o adapters.Operation) (adapters.Operation, error) {
	if err := checkOperation(o); err != nil {
		return o, err
	}
	if o.Kind != adapters.OperationSeek {
		if err := CheckCommand(o.Command()); err != nil {
			return o, err
		}
	}
	if _, err := db.exec(ctx, tx, "DELETE FROM outrider_operation WHERE state NOT IN ('planned', 'running') AND updated_at < ?", time.Now().Add(-adapters.OperationsKept)); err != nil {
		return o, err
	}
	s := db.query("INSERT INTO outrider_operation (id, kind, subject, place, rate, {by}, state, total, created_at, updated_at) VALUES (?, ?, ?, '{}', ?, ?, 'planned', ?, ",
		Pack(o.ID), string(o.Kind), encodeSubject(&o), o.Rate, Clean(o.By), o.Total)
	if db.OwnClock { // what was parked in this very millisecond was meant, too
		now := time.Now()
		s.And("?, ?)", now, now)
	} else {
		s.And("{now}, {now})")
	}
	if _, err := tx.Exec(ctx, s); err != nil {
		return o, err
	}
	if err := db.auditOperation(ctx, tx, &o, string(o.Kind), o.By, "begin", 0); err != nil {
		return o, err
	}
	return db.lockOperation(ctx, tx, o.ID)
}

// TakeOperation implements [adapters.OperatorStore].
func (o *Operators) TakeOperation(ctx context.Context, id, worker string, lease time.Duration) (taken *adapters.Operation, err error) {
	err = o.operate(ctx, "take an operation", func(tx Tx) error {
		taken = nil
		s := o.db.query("UPDATE outrider_operation AS o SET state = 'running', owner = ?, epoch = epoch + 1, lease_until = ", Pack(worker)).And(o.db.Later, lease.Microseconds())
		s.And(", started_at = coalesce(started_at, {now}), updated_at = {now}, taken_at = {now}, taken_done = done"+
			" WHERE id = ? AND state IN ('planned', 'running') AND (owner IN ('', ?) OR lease_until <= {now}"+
			" OR EXISTS (SELECT 1 FROM outrider_instance i WHERE i.id = o.owner AND NOT {alive}))", Pack(id), Pack(worker))
		n, err := tx.Exec(ctx, s)
		if err != nil || n == 0 {
			return err
		}
		found, err := o.db.lockOperation(ctx, tx, id)
		taken = &found
		return err
	})
	return taken, err
}

// StepOperation implements [adapters.OperatorStore].
func (o *Operators) StepOperation(ctx context.Context, step adapters.OperationStep) (after adapters.Operation, err error) {
	err = o.operate(ctx, "carry out a step of an operation", func(tx Tx) error {
		after, err = o.db.stepOperation(ctx, tx, step)
		return err
	})
	return after, err
}

// stepOperation carries a step out, with its progress.
func (db *Database) stepOperation(ctx context.Context, tx Tx, step adapters.OperationStep) (o adapters.Operation, err error) {
	if o, err = db.lockOperation(ctx, tx, step.ID); err != nil {
		return o, err
	}
	if o.State != adapters.OperationRunning || o.Epoch != step.Epoch {
		return o, fmt.Errorf("operation %s: %w", o.ID, adapters.ErrOperationLost)
	}
	done, place := step.Done, o.Place
	if step.Place != nil {
		place = *step.Place
	}
	if step.Parked > 0 {
		c := o.Command()
		if o.Filter.IsZero() && !o.All {
			return o, fmt.Errorf("operation %s: it selects everything, which was not ordered", o.ID)
		}
		c.Filter.Limit = step.Parked
		changed, err := db.changeParked(ctx, tx, c)
		if err != nil {
			return o, err
		}
		done += changed.Changed
		if place.ParkedOver = !changed.More; changed.Last != (adapters.ParkedKey{}) {
			place.Parked = changed.Last
		}
	}
	if step.Move != nil {
		if err := db.MoveIn(ctx, tx, *step.Move); err != nil {
			return o, err
		}
	}
	s := db.query("UPDATE outrider_operation SET done = done + ?, failed = failed + ?, place = ?, error = CASE WHEN error = '' THEN ? ELSE error END, updated_at = {now}",
		done, step.Failed, encodePlace(&place), Clean(step.Error))
	switch {
	case step.End != "":
		s.And(", state = ?, ended_at = {now}, owner = '', lease_until = NULL", string(step.End))
	case step.Lease <= 0:
		s.And(", owner = '', lease_until = NULL")
	default:
		s.And(", lease_until = ").And(db.Later, step.Lease.Microseconds())
	}
	if _, err := tx.Exec(ctx, s.And(" WHERE id = ?", Pack(o.ID))); err != nil {
		return o, err
	}
	if step.End != "" {
		if err := db.auditOperation(ctx, tx, &o, string(o.Kind), o.By, string(step.End), o.Done+done); err != nil {
			return o, err
		}
	}
	return db.lockOperation(ctx, tx, o.ID)
}

// StopOperation implements [adapters.OperatorStore].
func (o *Operators) StopOperation(ctx context.Context, id, by string) (bool, error) {
	return o.switchOperation(ctx, id, by, "stop", adapters.OperationState.Active, "state = 'stopped', ended_at = {now}, owner = '', lease_until = NULL")
}

// ResumeOperation implements [adapters.OperatorStore].
func (o *Operators) ResumeOperation(ctx context.Context, id, by string) (bool, error) {
	return o.switchOperation(ctx, id, by, "resume", func(s adapters.OperationState) bool {
		return s == adapters.OperationStopped || s == adapters.OperationFailed
	}, "state = 'planned', ended_at = NULL, error = ''")
}

func (o *Operators) switchOperation(ctx context.Context, id, by, action string, from func(adapters.OperationState) bool, set string) (changed bool, err error) {
	err = o.operate(ctx, action+" an operation", func(tx Tx) error {
		found, err := o.db.lockOperation(ctx, tx, id)
		if changed = err == nil && from(found.State); !changed {
			return err
		}
		if _, err := o.db.exec(ctx, tx, "UPDATE outrider_operation SET "+set+", updated_at = {now} WHERE id = ?", Pack(id)); err != nil {
			return err
		}
		return o.db.auditOperation(ctx, tx, &found, action, by, action, found.Done)
	})
	return changed && err == nil, err
}

// auditOperation writes down the state of an operation, and how far it is.
func (db *Database) auditOperation(ctx context.Context, tx Tx, o *adapters.Operation, action, by, event string, changed int) error {
	what := FilterJSON(o.Filter)
	if o.Kind == adapters.OperationSeek {
		what = FieldsJSON("routes", strings.Join(o.Routes, " "), "to", o.To)
	}
	return db.audit(ctx, tx, by, action, withFields(what, "operation", o.ID, "event", event, "total", strconv.Itoa(o.Total)), changed)
}

// checkOperation returns an error for an invalid operation.
func checkOperation(o adapters.Operation) error {
	switch {
	case o.Kind != adapters.OperationSeek && len(adapters.ParkedAction(o.Kind).Statuses(o.Filter)) == 0:
		return fmt.Errorf("operation: %s changes no messages with the status %q", o.Kind, o.Filter.Status)
	case o.Kind == adapters.OperationSeek && (len(o.Routes) == 0 || o.To == ""):
		return errors.New("operation: a seek needs routes and a place")
	case o.Rate < 0:
		return fmt.Errorf("operation: rate %v is negative; use 0 for none", o.Rate)
	}
	return nil
}
