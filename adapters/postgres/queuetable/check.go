package queuetable

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/outriderhq/outrider/adapters/layout"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
)

// Check implements [adapters.Queue]. It reports everything that is wrong at
// once, each with its fix.
func (q *Queue) Check(ctx context.Context) error {
	if err := pg.CheckSessions(ctx, q.pool); err != nil {
		return queueError(q.tables[0].name, "check", err)
	}
	var standby, readOnly bool
	err := q.pool.QueryRow(ctx, `SELECT pg_is_in_recovery(), current_setting('default_transaction_read_only')::bool`).Scan(&standby, &readOnly)
	switch {
	case err != nil:
		return queueError(q.tables[0].name, "check", err)
	case standby:
		return queueError(q.tables[0].name, "check", errQueueStandby)
	case readOnly:
		return queueError(q.tables[0].name, "check", errQueueReadOnly)
	}
	q.claiming.Lock()
	defer q.claiming.Unlock()
	var errs []error
	for _, t := range q.tables {
		errs = append(errs, queueError(t.name, "check", q.checkTable(ctx, t)))
	}
	return errors.Join(errs...)
}

var (
	errQueueStandby  = errors.New("the server is a standby, on which no row can be claimed; connect to the primary (with several hosts in the URL: target_session_attrs=read-write)")
	errQueueReadOnly = errors.New("transactions are read-only here (default_transaction_read_only), so that no row can be claimed; connect to the primary, or ALTER ROLE ... SET default_transaction_read_only = off")
)

// checkTable looks at one table.
func (q *Queue) checkTable(ctx context.Context, t *queueTable) error {
	if err := t.find(ctx, q.pool); err != nil {
		return err
	}
	columns, err := pg.TableColumns(ctx, q.pool, t.sql.table)
	if err != nil {
		return err
	}
	problems := []error{q.checkColumns(columns, t)}
	problems = append(problems, q.checkRole(ctx, t))
	if err := errors.Join(problems...); err != nil {
		return err
	}
	if err := q.checkStatuses(ctx, t, columns); err != nil {
		return err
	}
	indexes, err := t.indexes(ctx, q.pool)
	if err != nil {
		return err
	}
	if !indexes.whole && (!indexes.waiting || !indexes.held) {
		return fmt.Errorf("no index finds the unfinished rows of a group; every claim would read the whole table; %s", t.groupIndexFix())
	}
	return nil
}

// checkStatuses asks whether the table takes what is written as a status.
func (q *Queue) checkStatuses(ctx context.Context, t *queueTable, columns map[string]pg.TableColumn) error {
	l := t.sql.layout
	return pg.Accepts(ctx, q.pool, t.sql.table, columns[l.Columns.Status], l.Written()...)
}

// fit leaves columns out of the layout that the table may be without, and is.
func (q *Queue) fit(t *queueTable, columns map[string]pg.TableColumn) {
	fitting := t.sql.layout.In(func(name string) bool { _, ok := columns[name]; return ok })
	if fitting != t.sql.layout {
		q.mu.Lock() // settling reads it
		t.sql.layout = fitting
		q.mu.Unlock()
	}
}

// checkColumns compares the columns with the layout, once that has been fitted to them.
func (q *Queue) checkColumns(columns map[string]pg.TableColumn, t *queueTable) error {
	q.fit(t, columns)
	c := &t.sql.layout.Columns
	t.sql.long = t.sql.unbounded(columns)
	var errs []error
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for _, want := range t.sql.layout.All() {
		got, ok := columns[want.Name]
		if !ok {
			add("column %s (%s) is missing%s", want.Name, want.What, t.columnFix(want))
			continue
		}
		needed, allowed := wantedTypes(want.What)
		named := want.What == "key" || want.What == "group" && !t.sql.layout.GroupByType
		switch {
		case named && !got.Enum && !slices.Contains(nameTypes, got.OID):
			add("column %s (%s) is %s, whose values are not told apart by their text; it must be text, varchar, char, uuid, an integer, numeric, an enum, bytea, bit, a date or a time",
				want.Name, want.What, got.Type)
		case named && want.What == "group" && got.Folded:
			add("column %s (group) has a nondeterministic collation, by which groups of different names are equal: ALTER TABLE %s ALTER COLUMN %s TYPE %s COLLATE \"default\"",
				want.Name, t.sql.table, pg.QuoteName(want.Name), got.Cut)
		case allowed != nil && !slices.Contains(allowed, got.OID):
			add("column %s (%s) is %s; it must be %s", want.Name, want.What, got.Type, needed)
		}
	}
	if group, ok := columns[c.Group]; ok && t.sql.layout.DefaultGroup != "" && !slices.Contains(textTypes, group.OID) {
		add("column %s (group) is %s; rows without a group are in the group %q, so it must be text, varchar or char", c.Group, group.Type, t.sql.layout.DefaultGroup)
	}
	if key, ok := columns[c.Key]; ok && !key.Unique {
		add("column %s (key) is not unique: ALTER TABLE %s ADD PRIMARY KEY (%s)", c.Key, t.sql.table, pg.QuoteName(c.Key))
	}
	for _, name := range []string{c.Created, c.Status} {
		if column, ok := columns[name]; ok && !column.NotNull {
			add("column %s may be NULL, and a row with NULL would never be delivered: ALTER TABLE %s ALTER COLUMN %s SET NOT NULL",
				name, t.sql.table, pg.QuoteName(name))
		}
	}
	return errors.Join(errs...)
}

// columnFix says what to do about a missing column.
func (t *queueTable) columnFix(want layout.Named) string {
	for _, c := range t.sql.layout.Definitions[layout.PostgreSQL].Columns {
		if c.Name == want.Name {
			return fmt.Sprintf("; add it as: %s %s", c.Name, c.Type)
		}
	}
	return "; correct its name in the mapping, or leave an optional one out"
}

// nameTypes are the types of keys and groups, besides enums: their texts are equal just when their values are, by operators of the catalogue.
// Of numeric that is so of a key, which is unique, and of a group as [queueSQL.groupName] has it.
var nameTypes = []uint32{pgtype.TextOID, pgtype.VarcharOID, pgtype.BPCharOID, pgtype.NameOID, pgtype.QCharOID, pgtype.UUIDOID, pgtype.Int2OID, pgtype.Int4OID,
	pgtype.Int8OID, pgtype.OIDOID, pgtype.NumericOID, pgtype.BoolOID, pgtype.ByteaOID, pgtype.BitOID, pgtype.VarbitOID, pgtype.DateOID, pgtype.TimeOID,
	pgtype.TimestampOID, pgtype.TimestamptzOID, pgtype.XID8OID, pgtype.InetOID, pgtype.CIDROID, pgtype.MacaddrOID}

// wantedTypes are the types that a column may have; nil: any.
func wantedTypes(what string) (words string, oids []uint32) {
	switch what {
	case "created", "claimed", "next_attempt", "done", "updated":
		return "timestamp or timestamptz", timeTypes
	case "attempts":
		return "smallint, integer or bigint", []uint32{pgtype.Int2OID, pgtype.Int4OID, pgtype.Int8OID}
	case "payload":
		return "json, jsonb, text, varchar or bytea", []uint32{pgtype.JSONOID, pgtype.JSONBOID, pgtype.TextOID, pgtype.VarcharOID, pgtype.ByteaOID}
	case "error", "owner":
		return "text or varchar", []uint32{pgtype.TextOID, pgtype.VarcharOID}
	case "headers":
		return "json, jsonb, text or varchar", []uint32{pgtype.JSONOID, pgtype.JSONBOID, pgtype.TextOID, pgtype.VarcharOID}
	}
	return "", nil
}

// checkRole asks whether the connected role may do what it must.
func (q *Queue) checkRole(ctx context.Context, t *queueTable) error {
	problems, _, err := pg.RoleProblems(ctx, q.pool, t.sql.table, queueGrants(t.sql.layout, t.full))
	return errors.Join(append(problems, err)...)
}

// queueError says for which table and in doing what the error came up and,
// where one is known, the fix.
func queueError(table, what string, err error) error {
	return pg.Describe("queue table "+table, what, err, queueFix)
}

func queueFix(refused *pgconn.PgError) string {
	switch refused.Code {
	case pg.UndefinedTable, pg.InvalidSchema:
		return `; correct the table's name or the database in the config, or create it with "outrider init"`
	case pg.InsufficientPrivilege:
		if strings.Contains(refused.Message, "row-level security") {
			return "; row security would hide rows, and they would never be delivered: ALTER ROLE ... BYPASSRLS for the role that Outrider connects as"
		}
		return "; GRANT SELECT, UPDATE on the table (and USAGE on its schema) to the role that Outrider connects as"
	case pg.UndefinedColumn, pg.UndefinedFunction, pg.DatatypeMismatch:
		return `; the table is not in the configured layout`
	case pg.ReadOnlyTransaction:
		return pg.ReadOnlyFix
	}
	return ""
}

// Grants are the privileges on queue tables. Those of publishers are the
// application's.
func Grants(layout Layout, tables ...Table) (g pg.Grants) {
	for _, table := range tables {
		g = append(g, queueGrants(&layout, pg.NameOf(table.Name))...)
	}
	return g
}

func queueGrants(layout *Layout, table pgx.Identifier) (g pg.Grants) {
	var names []string
	for _, c := range layout.All() {
		names = append(names, c.Name)
	}
	for _, task := range []pg.Task{pg.TaskRelay, pg.TaskOperator} {
		reads := pg.Reading(task, table, names)
		if task == pg.TaskRelay {
			reads.Rights = append(reads.Rights, pg.Right{Name: "UPDATE", Columns: layout.Columns.Written()})
			if layout.DoneIsDeleted || layout.OldIsDeleted {
				reads.Rights = append(reads.Rights, pg.Right{Name: "DELETE"})
			}
		} else {
			reads.Rights = append(reads.Rights, operatorRights(&layout.Columns)...)
		}
		g = append(g, pg.Usage(task, table), reads)
	}
	return g
}

// operatorRights are what [adapters.OperatorQueue] needs besides reading.
func operatorRights(c *Columns) []pg.Right {
	written := []string{c.Status}
	for _, name := range []string{c.Attempts, c.NextAttempt, c.Updated} {
		if name != "" {
			written = append(written, name)
		}
	}
	return []pg.Right{{Name: "UPDATE", Columns: written}, {Name: "DELETE"}}
}

// describe finds out once what a table's statements depend on: types, and
// the indexes that are there. The caller has claiming.
func (q *Queue) describe(ctx context.Context, t *queueTable) error {
	if t.described {
		return nil
	}
	if err := t.find(ctx, q.pool); err != nil {
		return err
	}
	conn, err := q.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	columns, err := pg.TableColumns(ctx, conn, t.sql.table)
	if err != nil {
		return err
	}
	if err := q.checkColumns(columns, t); err != nil {
		return err
	}
	c := &t.sql.layout.Columns
	t.sql.types = queueTypes{
		key: columns[c.Key].Plain, group: columns[c.Group].Plain, status: columns[c.Status].Plain, created: columns[c.Created].Plain,
		claimed: columns[c.Claimed].Plain, payload: columns[c.Payload].Plain, due: columns[c.NextAttempt].Plain, failure: columns[c.Error].Cut,
	}
	indexes, err := t.indexes(ctx, conn)
	if err != nil {
		return err
	}
	if t.sql.short = indexes.short; t.sql.short || t.sql.layout.GroupByType {
		t.sql.types.group = "text"
	}
	if t.aged = indexes.aged; !t.aged {
		t.newest, t.latest = position{}, position{} // read by age from the beginning should an index come
		t.unmatched.round++
		t.wakeChanged() // nothing would notice that their first rows change
	}
	t.whole, t.heldAged = indexes.whole, indexes.heldAged
	if !t.claims.marks() {
		t.whole = true // nothing comes before what waits
		if err := q.describeHot(ctx, conn, t, indexes); err != nil {
			return err
		}
	}
	text := t.sql.text(indexes)
	q.mu.Lock() // settling reads them
	t.text, t.highest = text, pg.Highest(conn.Conn())
	q.mu.Unlock()
	t.described = true
	return nil
}

// timeTypes are what times may be.
var timeTypes = []uint32{pgtype.TimestampOID, pgtype.TimestamptzOID}

func (t *queueTable) indexes(ctx context.Context, q pg.Querier) (queueIndexes, error) {
	all, err := pg.TableIndexes(ctx, q, t.sql.table)
	if err != nil {
		return queueIndexes{}, err
	}
	var found queueIndexes
	for _, short := range []bool{false, true} {
		sql := t.sql
		sql.short = short
		of := queueIndexes{short: short}
		for _, index := range all {
			of.add(&sql, queueIndex{index})
		}
		if !short || of.whole && !found.whole {
			found = of
		}
	}
	found.aged = found.heldAged || found.waitingAged && found.listed
	return found, nil
}

// described returns what a table's statements are made of.
func (q *Queue) described(ctx context.Context, t *queueTable) (queueSQL, error) {
	q.claiming.Lock()
	defer q.claiming.Unlock()
	if err := q.lookUpNotes(ctx, t); err != nil {
		return queueSQL{}, err
	}
	err := q.describe(ctx, t)
	return t.sql, err
}
