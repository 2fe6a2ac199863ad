package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/sqlvalue"
)

// Database is how a state store reaches its database.
type Database struct {
	Dialect

	// Pool is the database outside of transactions. Transact runs f in one, and again as a whole while another transaction is in the way.
	Pool     Tx
	Transact func(ctx context.Context, f func(tx Tx) error) error

	// Wrap says what failed; nil for nil.
	Wrap func(what string, err error) error

	// LockRoute keeps those who take lanes of a route, and settles of its lanes, away until the transaction ends. nil: the transaction does.
	LockRoute func(ctx context.Context, tx Tx, route string) error

	// EndSession ends the session that shows that an instance lives, if there is one. nil: nothing but its lease shows it.
	EndSession func(ctx context.Context, instance string) error

	// Move places the cursors of a route, whose lock the transaction has; their rows may be missing.
	Move func(ctx context.Context, tx Tx, m adapters.Move) error
}

// Operators is the part of a state store that is the same for all databases: what operators read and change, and parked messages as
// their owner reads them. A state store embeds it.
type Operators struct {
	db        Database
	announced atomic.Pointer[announced]
}

// NewOperators returns that part over a database.
func NewOperators(db Database) Operators { return Operators{db: db} }

// query makes a statement.
func (o *Operators) query(text string, args ...any) *Statement {
	s := &Statement{dialect: o.db.Dialect}
	s.add(text, args...)
	return s
}

// ListParked returns what the filter selects, by route, slot and seq.
func (o *Operators) ListParked(ctx context.Context, f adapters.ParkedFilter, bytes int64) (parked []adapters.Parked, err error) {
	if err = CheckFilter(f); err == nil {
		parked, err = o.parked(ctx, ListParked(o.db.Dialect, f, bytes))
	}
	return parked, o.db.Wrap("list parked messages", err)
}

// ParkedQueue returns the messages of one group that are not dead, by ascending
// seq. For the empty group these are the lane's messages without a group.
func (o *Operators) ParkedQueue(ctx context.Context, lane adapters.LaneRef, group string, after int64, limit int, bytes int64) ([]adapters.Parked, error) {
	parked, err := o.parked(ctx, messages(o.db.Dialect, bytes, "seq", limit, func(s *Statement) {
		s.add("route = % AND slot = % AND seq > % AND "+o.db.Flows, lane.Route, lane.Slot, after)
		condition, args := o.db.OfGroup(PackGroup(group))
		s.add(" AND "+condition, args...)
	}))
	return parked, o.db.Wrap(fmt.Sprintf("read a parked group of %s/%02d", lane.Route, lane.Slot), err)
}

func (o *Operators) parked(ctx context.Context, s *Statement) ([]adapters.Parked, error) {
	parked := []adapters.Parked{}
	err := o.db.Pool.Each(ctx, s, func(scan func(...any) error) error {
		var p adapters.Parked
		var status, metadata, tries string
		var due, at int64
		err := scan(&p.Route, &p.Slot, &p.Seq, &p.Group, &status, &p.Attempts, &due, &p.LastError,
			&at, &p.ID, &p.Type, &p.Position, &tries, &p.Size, &p.Bare, &metadata, (*sqlvalue.Bytes)(&p.Payload))
		if err != nil {
			return err
		}
		p.Group, p.ID, p.Type = Unpack(p.Group), Unpack(p.ID), Unpack(p.Type)
		p.Status, p.Tries = adapters.ParkedStatus(status), DecodeTries(tries)
		p.NextAttemptAt, p.ParkedAt = instant(due), instant(at)
		if p.Metadata, err = DecodeMetadata(metadata); err != nil {
			return fmt.Errorf("outrider_parked %s/%02d seq %d: %w", p.Route, p.Slot, p.Seq, err)
		}
		parked = append(parked, p)
		return nil
	})
	return parked, err
}

// ParkedGroups implements [adapters.StateStore].
func (o *Operators) ParkedGroups(ctx context.Context, route string, slots []int) (groups []adapters.ParkedGroup, err error) {
	if len(slots) == 0 {
		return nil, nil
	}
	text, args := o.db.ParkedGroups(route, slots)
	err = o.db.Pool.Each(ctx, o.query(text, args...), func(scan func(...any) error) error {
		var g adapters.ParkedGroup
		var status string
		var due, since int64
		err := scan(&g.Slot, &g.Group, &g.Count, &g.FirstSeq, &status, &due, &since)
		g.Group, g.Since = Unpack(g.Group), instant(since)
		g.Held = status == string(adapters.ParkedHeld)
		if status == string(adapters.ParkedRetrying) {
			g.Due = instant(due)
		}
		groups = append(groups, g)
		return err
	})
	return groups, o.db.Wrap("read the parked groups of "+route, err)
}

// CountParked counts what the command would change, by route and status.
func (o *Operators) CountParked(ctx context.Context, c adapters.ParkedCommand) ([]adapters.ParkedCount, error) {
	counts, err := CountParked(ctx, o.db.Dialect, o.db.Pool, c)
	return counts, o.db.Wrap("count parked messages", err)
}

// ChangeParked carries out one step of a command, in one transaction.
func (o *Operators) ChangeParked(ctx context.Context, c adapters.ParkedCommand) (step adapters.ParkedStep, err error) {
	if err = CheckCommand(c); err == nil {
		err = o.db.Transact(ctx, func(tx Tx) error {
			step, err = ChangeParked(ctx, o.db.Dialect, tx, c)
			return err
		})
	}
	if err != nil {
		return adapters.ParkedStep{}, o.db.Wrap(string(c.Action), err)
	}
	return step, nil
}

// Audit implements [adapters.OperatorStore].
func (o *Operators) Audit(ctx context.Context, by string, action adapters.ParkedAction, f adapters.ParkedFilter, table string, changed int) error {
	return o.db.Wrap("write an audit record", audit(ctx, o.db.Dialect, o.db.Pool, by, string(action), TableFilterJSON(f, table), changed))
}

// WriteAudit implements [adapters.OperatorStore].
func (o *Operators) WriteAudit(ctx context.Context, by, action string, changed int, about ...string) error {
	return o.db.Wrap("write an audit record", o.db.audit(ctx, o.db.Pool, by, action, changed, about...))
}

// ReadAudit implements [adapters.OperatorStore].
func (o *Operators) ReadAudit(ctx context.Context, before int64, limit int) ([]adapters.AuditRecord, error) {
	records, err := Audit(ctx, o.db.Dialect, o.db.Pool, before, limit)
	return records, o.db.Wrap("read the audit records", err)
}

// CountFailures implements [adapters.OperatorStore].
func (o *Operators) CountFailures(ctx context.Context, route string, most int) ([]adapters.ParkedFailure, bool, error) {
	failures, more, err := CountFailures(ctx, o.db.Dialect, o.db.Pool, route, most)
	return failures, more, o.db.Wrap("count the errors of parked messages", err)
}

// CreateOperation implements [adapters.OperatorStore].
func (o *Operators) CreateOperation(ctx context.Context, of adapters.Operation) (created adapters.Operation, err error) {
	err = o.operate(ctx, "order an operation", func(tx Tx) error {
		created, err = CreateOperation(ctx, o.db.Dialect, tx, of)
		return err
	})
	return created, err
}

// ListOperations implements [adapters.OperatorStore].
func (o *Operators) ListOperations(ctx context.Context, f adapters.OperationFilter) ([]adapters.Operation, error) {
	operations, err := ListOperations(ctx, o.db.Dialect, o.db.Pool, f)
	return operations, o.db.Wrap("list operations", err)
}

// TakeOperation implements [adapters.OperatorStore].
func (o *Operators) TakeOperation(ctx context.Context, id, worker string, lease time.Duration) (taken *adapters.Operation, err error) {
	err = o.operate(ctx, "take an operation", func(tx Tx) error {
		taken, err = TakeOperation(ctx, o.db.Dialect, tx, id, worker, lease)
		return err
	})
	return taken, err
}

// StepOperation implements [adapters.OperatorStore].
func (o *Operators) StepOperation(ctx context.Context, step adapters.OperationStep) (after adapters.Operation, err error) {
	err = o.operate(ctx, "carry out a step of an operation", func(tx Tx) error {
		after, err = StepOperation(ctx, o.db.Dialect, tx, step, func(m adapters.Move) error { return o.db.MoveIn(ctx, tx, m) })
		return err
	})
	return after, err
}

// StopOperation implements [adapters.OperatorStore].
func (o *Operators) StopOperation(ctx context.Context, id, by string) (changed bool, err error) {
	err = o.operate(ctx, "stop an operation", func(tx Tx) error {
		changed, err = StopOperation(ctx, o.db.Dialect, tx, id, by)
		return err
	})
	return changed, err
}

// ResumeOperation implements [adapters.OperatorStore].
func (o *Operators) ResumeOperation(ctx context.Context, id, by string) (changed bool, err error) {
	err = o.operate(ctx, "resume an operation", func(tx Tx) error {
		changed, err = ResumeOperation(ctx, o.db.Dialect, tx, id, by)
		return err
	})
	return changed, err
}

// operate runs f in a transaction. An error of the operation itself needs no context.
func (o *Operators) operate(ctx context.Context, what string, f func(tx Tx) error) error {
	err := o.db.Transact(ctx, f)
	if errors.Is(err, adapters.ErrOperationLost) || errors.Is(err, adapters.ErrNoOperation) {
		return err
	}
	return o.db.Wrap(what, err)
}

// Instances returns all instances, by id.
func (o *Operators) Instances(ctx context.Context) (instances []adapters.Instance, err error) {
	d := &o.db.Dialect
	s := o.query("SELECT i.id, " + d.AliveInstance + ", " + d.micros("i.lease_until") + " - " + d.micros(d.Now) + ", " + d.micros("i.joined_at") + ", " +
		d.micros("i.renewed_at") + ", " + d.textual("i.routes") + " FROM outrider_instance i ORDER BY i.id")
	known, now := o.announced.Load(), announced{}
	err = o.db.Pool.Each(ctx, s, func(scan func(...any) error) error {
		var i adapters.Instance
		var left, joined, renewed int64
		var routes string
		if err := scan(&i.ID, &i.Alive, &left, &joined, &renewed, &routes); err != nil {
			return err
		}
		i.Left = time.Duration(left) * time.Microsecond
		i.JoinedAt, i.RenewedAt = instant(joined), instant(renewed)
		a := known.of(i.ID)
		if a.text != routes {
			a.text = routes
			a.routes, err = DecodeRoutes(routes)
		}
		i.Routes, now[i.ID] = slices.Clone(a.routes), a
		instances = append(instances, i)
		return err
	})
	if err == nil {
		o.announced.Store(&now)
	}
	return instances, o.db.Wrap("read the instances", err)
}

// Text is a statement as the database takes it.
func Text(text string, args ...any) *Statement {
	s := &Statement{Args: args}
	s.text.WriteString(text)
	return s
}

// Querier is a database, a connection or a transaction of database/sql.
type Querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// SQLTx is a Querier as a [Tx].
type SQLTx struct{ DB Querier }

// Each implements [Tx].
func (t SQLTx) Each(ctx context.Context, s *Statement, row func(scan func(...any) error) error) error {
	return Each(ctx, t.DB, s.SQL(), s.Args, row)
}

// Each runs a query and calls row for each of its rows.
func Each(ctx context.Context, q Querier, query string, args []any, row func(scan func(...any) error) error) error {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // Err returns the error
	for rows.Next() {
		if err := row(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Exec implements [Tx].
func (t SQLTx) Exec(ctx context.Context, s *Statement) (int64, error) {
	result, err := t.DB.ExecContext(ctx, s.SQL(), s.Args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// SQLTransact is a [Database.Transact] by one of database/sql.
func SQLTransact(transact func(ctx context.Context, f func(tx *sql.Tx) error) error) func(ctx context.Context, f func(tx Tx) error) error {
	return func(ctx context.Context, f func(tx Tx) error) error {
		return transact(ctx, func(tx *sql.Tx) error { return f(SQLTx{tx}) })
	}
}

// Marks are as many placeholders for [Statement] as there are slots, and the slots.
func Marks(slots []int) (list string, args []any) {
	for _, slot := range slots {
		args = append(args, slot)
	}
	return "(" + strings.TrimSuffix(strings.Repeat("%, ", len(slots)), ", ") + ")", args
}
