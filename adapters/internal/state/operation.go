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
)

// operationFields are the columns of an operation, as readOperation reads them.
func (d Dialect) operationFields() string {
	return strings.Join([]string{"id", "kind", "subject", "place", "rate", d.by(), "state", "total", "done", "failed", "error", d.micros("created_at"),
		d.known("started_at"), d.micros("updated_at"), d.known("ended_at"), "owner", "epoch", d.known("lease_until") + " - " + d.micros(d.Now), d.known("taken_at"), "taken_done"}, ", ")
}

// operations reads those that a statement selects.
func operations(ctx context.Context, tx Tx, s *Statement) (out []adapters.Operation, err error) {
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

// instant is a time of so many microseconds; 0: none.
func instant(micros int64) time.Time {
	if micros == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micros)
}

// ListOperations returns operations, the newest first.
func ListOperations(ctx context.Context, d Dialect, tx Tx, f adapters.OperationFilter) ([]adapters.Operation, error) {
	s := &Statement{dialect: d}
	s.add("SELECT " + d.operationFields() + " FROM outrider_operation WHERE true")
	if f.ID != "" {
		s.add(" AND id = %", Pack(f.ID))
	}
	if f.Active {
		s.add(" AND state IN ('planned', 'running')")
	}
	if f.Before != "" {
		s.add(" AND id < %", Pack(f.Before))
	}
	s.add(" ORDER BY id DESC LIMIT %", cmp.Or(f.Limit, adapters.DefaultParkedList))
	return operations(ctx, tx, s)
}

// lockOperation reads one and keeps others from changing it until the transaction ends.
func lockOperation(ctx context.Context, d Dialect, tx Tx, id string) (o adapters.Operation, err error) {
	s := &Statement{dialect: d}
	s.add("SELECT "+d.operationFields()+" FROM outrider_operation WHERE id = %"+d.ForUpdate, Pack(id))
	found, err := operations(ctx, tx, s)
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("operation %s: %w", id, adapters.ErrNoOperation)
	}
	if err != nil {
		return o, err
	}
	return found[0], nil
}

// CreateOperation writes an operation down and removes those that ended long ago.
func CreateOperation(ctx context.Context, d Dialect, tx Tx, o adapters.Operation) (adapters.Operation, error) {
	if err := checkOperation(o); err != nil {
		return o, err
	}
	if o.Kind != adapters.OperationSeek {
		if err := CheckCommand(o.Command()); err != nil {
			return o, err
		}
	}
	old := &Statement{dialect: d}
	old.add("DELETE FROM outrider_operation WHERE state NOT IN ('planned', 'running') AND updated_at < %", time.Now().Add(-adapters.OperationsKept))
	if _, err := tx.Exec(ctx, old); err != nil {
		return o, err
	}
	s := &Statement{dialect: d}
	s.add("INSERT INTO outrider_operation (id, kind, subject, place, rate, "+d.by()+", state, total, created_at, updated_at) VALUES (%, %, %, '{}', %, %, 'planned', %, ",
		Pack(o.ID), string(o.Kind), encodeSubject(&o), o.Rate, Clean(o.By), o.Total)
	if d.OwnClock { // what was parked in this very millisecond was meant, too
		now := time.Now()
		s.add("%, %)", now, now)
	} else {
		s.add(d.Now + ", " + d.Now + ")")
	}
	if _, err := tx.Exec(ctx, s); err != nil {
		return o, err
	}
	if err := auditOperation(ctx, d, tx, &o, string(o.Kind), o.By, "begin", 0); err != nil {
		return o, err
	}
	return lockOperation(ctx, d, tx, o.ID)
}

// TakeOperation gives an active operation to a worker, unless a living one has it.
func TakeOperation(ctx context.Context, d Dialect, tx Tx, id, worker string, lease time.Duration) (*adapters.Operation, error) {
	s := &Statement{dialect: d}
	s.add("UPDATE outrider_operation AS o SET state = 'running', owner = %, epoch = epoch + 1, lease_until = "+d.later()+
		", started_at = coalesce(started_at, "+d.Now+"), updated_at = "+d.Now+", taken_at = "+d.Now+", taken_done = done", Pack(worker), lease.Microseconds())
	s.add(" WHERE id = % AND state IN ('planned', 'running') AND (owner IN ('', %) OR lease_until <= "+d.Now+
		" OR EXISTS (SELECT 1 FROM outrider_instance i WHERE i.id = o.owner AND NOT "+d.AliveInstance+"))", Pack(id), Pack(worker))
	taken, err := tx.Exec(ctx, s)
	if err != nil || taken == 0 {
		return nil, err
	}
	o, err := lockOperation(ctx, d, tx, id)
	return &o, err
}

// later is a time from now, of which % stands for the microseconds.
func (d Dialect) later() string { return strings.ReplaceAll(d.Later, "?", "%") }

// StepOperation carries a step out, with its progress. move carries out a [adapters.OperationStep.Move]
// in the same transaction.
func StepOperation(ctx context.Context, d Dialect, tx Tx, step adapters.OperationStep, move func(adapters.Move) error) (o adapters.Operation, err error) {
	if o, err = lockOperation(ctx, d, tx, step.ID); err != nil {
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
		changed, err := changeParked(ctx, d, tx, c)
		if err != nil {
			return o, err
		}
		done += changed.Changed
		if place.ParkedOver = !changed.More; changed.Last != (adapters.ParkedKey{}) {
			place.Parked = changed.Last
		}
	}
	if step.Move != nil {
		if err := move(*step.Move); err != nil {
			return o, err
		}
	}
	s := &Statement{dialect: d}
	s.add("UPDATE outrider_operation SET done = done + %, failed = failed + %, place = %, error = CASE WHEN error = '' THEN % ELSE error END, updated_at = "+d.Now,
		done, step.Failed, encodePlace(&place), Clean(step.Error))
	switch {
	case step.End != "":
		s.add(", state = %, ended_at = "+d.Now+", owner = '', lease_until = NULL", string(step.End))
	case step.Lease <= 0:
		s.add(", owner = '', lease_until = NULL")
	default:
		s.add(", lease_until = "+d.later(), step.Lease.Microseconds())
	}
	s.add(" WHERE id = %", Pack(o.ID))
	if _, err := tx.Exec(ctx, s); err != nil {
		return o, err
	}
	if step.End != "" {
		if err := auditOperation(ctx, d, tx, &o, string(o.Kind), o.By, string(step.End), o.Done+done); err != nil {
			return o, err
		}
	}
	return lockOperation(ctx, d, tx, o.ID)
}

// StopOperation stops an active operation.
func StopOperation(ctx context.Context, d Dialect, tx Tx, id, by string) (bool, error) {
	return switchOperation(ctx, d, tx, id, by, "stop", adapters.OperationState.Active,
		"state = 'stopped', ended_at = "+d.Now+", owner = '', lease_until = NULL")
}

// ResumeOperation makes one go on that was stopped, or failed.
func ResumeOperation(ctx context.Context, d Dialect, tx Tx, id, by string) (bool, error) {
	return switchOperation(ctx, d, tx, id, by, "resume", func(s adapters.OperationState) bool {
		return s == adapters.OperationStopped || s == adapters.OperationFailed
	}, "state = 'planned', ended_at = NULL, error = ''")
}

func switchOperation(ctx context.Context, d Dialect, tx Tx, id, by, action string, from func(adapters.OperationState) bool, set string) (bool, error) {
	o, err := lockOperation(ctx, d, tx, id)
	if err != nil || !from(o.State) {
		return false, err
	}
	s := &Statement{dialect: d}
	s.add("UPDATE outrider_operation SET "+set+", updated_at = "+d.Now+" WHERE id = %", Pack(id))
	if _, err := tx.Exec(ctx, s); err != nil {
		return false, err
	}
	return true, auditOperation(ctx, d, tx, &o, action, by, action, o.Done)
}

// auditOperation writes down what became of an operation, and how far it is.
func auditOperation(ctx context.Context, d Dialect, tx Tx, o *adapters.Operation, action, by, event string, changed int) error {
	what := FilterJSON(o.Filter)
	if o.Kind == adapters.OperationSeek {
		what = FieldsJSON("routes", strings.Join(o.Routes, " "), "to", o.To)
	}
	return audit(ctx, d, tx, by, action, withFields(what, "operation", o.ID, "event", event, "total", strconv.Itoa(o.Total)), changed)
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
