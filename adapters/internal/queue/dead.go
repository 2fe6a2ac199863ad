package queue

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/layout"
)

// DeadPageBytes bounds the payloads of a page of dead rows.
const DeadPageBytes = 4 << 20

// Dead implements [adapters.OperatorQueue].
func (o *Operators) Dead(ctx context.Context, f adapters.DeadFilter) ([]adapters.DeadRow, error) {
	return Pages(o.q.Tables, f.After, o.unknown, func(of layout.Table, after adapters.DeadKey) ([]adapters.DeadRow, error) {
		if f.After = after; !after.Retrying {
			page, err := o.deadIn(ctx, of, f)
			if err != nil || len(page) > 0 || !f.Retrying || o.q.Layout.Columns.NextAttempt == "" || o.q.Layout.Columns.Attempts == "" {
				return page, o.q.Wrap(of.Name, "look for dead rows", err)
			}
			f.After = adapters.DeadKey{Retrying: true}
		}
		page, err := o.deadIn(ctx, of, f)
		return page, o.q.Wrap(of.Name, "look for rows in backoff", err)
	})
}

// deadIn reads pages of a table until one has a row that was wanted: ids are compared here, and when a row died, because columns keep
// times as their writers like.
func (o *Operators) deadIn(ctx context.Context, of layout.Table, f adapters.DeadFilter) (page []adapters.DeadRow, err error) {
	c := &o.q.Layout.Columns
	d, err := o.q.Describe(ctx, of.Name)
	if err != nil || f.Error != "" && c.Error == "" || f.Group != "" && c.Group == "" {
		return nil, err
	}
	for {
		found, err := o.deadPage(ctx, of, d, f)
		if err != nil || len(found) == 0 {
			return nil, err
		}
		for i := range found {
			if (f.ID == "" || Names(f.ID, found[i].Row.ID)) && (f.Before.IsZero() || found[i].Died.Before(f.Before)) &&
				(!f.After.Retrying || found[i].Due.After(time.Now())) {
				page = append(page, found[i])
			}
		}
		if len(page) > 0 {
			return page, nil
		}
		f.After = found[len(found)-1].At
	}
}

// deadPage reads rows behind a position.
func (o *Operators) deadPage(ctx context.Context, of layout.Table, d Dialect, f adapters.DeadFilter) (page []adapters.DeadRow, err error) {
	query := o.deadRows(of, d, f)
	rows, err := o.q.DB.QueryContext(ctx, query.Text, query.Args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // Err returns the error
	var failure sql.NullString
	var updated any
	r := NewRecord(of, d.Layout(), o.q.MaxRow, d).With(&failure, &updated)
	for bytes := 0; bytes < DeadPageBytes && rows.Next(); bytes += len(r.Payload) {
		if err := r.Scan(rows); err != nil {
			return nil, err
		}
		row := r.Decode()
		if row.Err = nil; !f.Payload {
			row.Payload = nil
		}
		dead := adapters.DeadRow{At: adapters.DeadKey{Table: of.Name, Created: d.Text(r.Created), Key: row.ID, Retrying: f.After.Retrying}, Row: *row, Attempts: r.Attempts,
			Error: failure.String, Died: r.died(updated)}
		if f.After.Retrying {
			dead.Due = known(d, r.Next)
		}
		page = append(page, dead)
	}
	return page, rows.Err()
}

// died is when a row was given up, as far as the table says: the last attempt was not before it was due.
func (r *Record) died(updated any) time.Time {
	for _, value := range []any{updated, r.Claimed, r.Next, r.Created} {
		if at := known(r.sql, value); !at.IsZero() {
			return at
		}
	}
	return time.Time{}
}

// deadRows is the statement for a page, along the index of these rows.
func (o *Operators) deadRows(of layout.Table, d Dialect, f adapters.DeadFilter) Statement {
	c := &o.q.Layout.Columns
	columns := o.columns(d)
	if !f.Payload && !o.q.Layout.TypeInPayload { // none is read
		columns = Columns(d, d.Layout(), 0, d.Raw(c.Claimed), d.Group())
	}
	query := Statement{Text: "SELECT " + strings.Join([]string{columns, Short(d, c.Error), d.Raw(c.Updated)}, ", ") + " "}
	state := Dead
	if f.After.Retrying {
		state = Unfinished
	}
	if f.ID == "" {
		query = query.and(d.Aged(state) + o.of(d, f.After))
	} else {
		row := o.keyed(d, f.ID)
		query = query.and(row.Text+o.of(d, f.After), row.Args...)
	}
	query = query.behind(d, f.After)
	if f.Group != "" {
		names := GroupNames(of.Kind, f.Group)
		query = query.and(" AND "+d.Group()+" IN (?, ?)", d.GroupValue(names[0]), d.GroupValue(names[len(names)-1]))
	}
	if f.Error != "" {
		query = query.and(" AND INSTR(LOWER("+d.Quote(c.Error)+"), LOWER(?)) > 0", f.Error)
	}
	return query.and(o.byAge(d)+" LIMIT ?", cmp.Or(f.Limit, adapters.DefaultParkedStep))
}

// ChangeDead implements [adapters.OperatorQueue].
func (o *Operators) ChangeDead(ctx context.Context, action adapters.ParkedAction, rows []adapters.DeadKey, record func(ctx context.Context, changed int) error) (changed int, err error) {
	tables := map[string]Dialect{}
	for _, r := range rows {
		if tables[r.Table] != nil {
			continue
		}
		if tables[r.Table], err = o.described(ctx, r.Table); err != nil {
			return 0, err
		}
	}
	if action != adapters.ParkedRedrive && action != adapters.ParkedPurge {
		return 0, fmt.Errorf("%s: dead rows can be redriven and purged; %q is neither", o.q.Queue, action)
	}
	if o.q.Within == nil {
		record = Once(record)
	}
	err = o.q.Transact(ctx, o.q.DB, func(tx *sql.Tx) error {
		changed = 0
		for _, r := range rows {
			change := o.change(tables[r.Table], action, r)
			result, err := tx.ExecContext(ctx, change.Text, change.Args...)
			if err != nil {
				return o.q.Wrap(r.Table, string(action), err)
			}
			n, err := result.RowsAffected()
			if err != nil {
				return err
			}
			changed += int(n)
		}
		if changed == 0 {
			return nil
		}
		if o.q.Within != nil {
			return record(o.q.Within(ctx, tx), changed)
		}
		return record(ctx, changed)
	})
	if err != nil {
		return 0, err
	}
	return changed, nil
}

// Once is a record for a transaction that may run again after it was written elsewhere: the same number of rows is recorded once.
func Once(record func(ctx context.Context, changed int) error) func(ctx context.Context, changed int) error {
	recorded := 0
	return func(ctx context.Context, changed int) error {
		if changed == recorded {
			return nil
		}
		err := record(ctx, changed)
		if err == nil {
			recorded = changed
		}
		return err
	}
}

// of is the condition that a row is dead, or has failed and waits, as its key says.
func (o *Operators) of(d Dialect, key adapters.DeadKey) string {
	if key.Retrying {
		return " AND " + d.Statuses(o.q.Layout.Statuses.Waiting()...) + " AND " + d.Attempts() + " > 0"
	}
	return " AND " + d.Statuses(o.q.Layout.Dead()...)
}

// change is the statement that changes a row that is dead still, or in backoff.
func (o *Operators) change(d Dialect, action adapters.ParkedAction, key adapters.DeadKey) Statement {
	row := o.keyed(d, key.Key).and(o.of(d, key))
	if action == adapters.ParkedPurge {
		return Statement{"DELETE " + row.Text, row.Args}
	}
	change := d.Redrive()
	_, where, _ := strings.Cut(row.Text, " WHERE ")
	return change.and(" WHERE "+where, row.Args...)
}

// CountDead implements [adapters.OperatorQueue].
func (o *Operators) CountDead(ctx context.Context, most int, kinds bool) (counts []adapters.DeadCount, more bool, err error) {
	for _, of := range o.q.Tables {
		d, err := o.q.Describe(ctx, of.Name)
		if err != nil {
			return nil, false, err
		}
		if kinds && o.q.Layout.TypeInPayload {
			return nil, false, fmt.Errorf("table %s: the type of a row is in its payload: %w", of.Name, errors.ErrUnsupported)
		}
		in, over, err := o.countDead(ctx, of, d, most, kinds)
		if err != nil {
			return nil, false, o.q.Wrap(of.Name, "count dead rows", err)
		}
		counts, more = append(counts, in...), more || over
	}
	return counts, more, nil
}

// countDead counts by type, aggregate type and tenant.
func (o *Operators) countDead(ctx context.Context, of layout.Table, d Dialect, most int, kinds bool) (counts []adapters.DeadCount, more bool, err error) {
	c := &o.q.Layout.Columns
	columns := "NULL AS a, NULL AS b, NULL AS c"
	if kinds {
		columns = Short(d, c.Type) + " AS a, " + Short(d, c.AggregateType) + " AS b, " + Short(d, c.Tenant) + " AS c"
	}
	//nolint:gosec // G202: names from the table's description
	rows, err := o.q.DB.QueryContext(ctx, "SELECT a, b, c, COUNT(*) FROM (SELECT "+columns+" "+d.Aged(Dead)+" LIMIT ?) AS found GROUP BY a, b, c", most+1)
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = rows.Close() }() // Err returns the error
	for seen := 0; rows.Next(); {
		var typ, aggregate, tenant sql.NullString
		n := adapters.DeadCount{}
		if err := rows.Scan(&typ, &aggregate, &tenant, &n.Rows); err != nil {
			return nil, false, err
		}
		n.Row = adapters.Row{Kind: of.Kind, Type: typ.String, AggregateType: aggregate.String, Tenant: tenant.String}
		if o.q.Layout.KindInType {
			n.Row.Kind = n.Row.Type
		}
		if seen += n.Rows; seen > most {
			more = true
			n.Rows -= seen - most
		}
		counts = append(counts, n)
	}
	return counts, more, rows.Err()
}
