package outbox

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// mysqlRows bounds the rows of one statement, which may have 65,535 parameters.
const mysqlRows = 5000

// Numbers of MySQL's errors.
const (
	mysqlDuplicate     = 1062
	mysqlNoColumn      = 1054
	mysqlDenied        = 1142
	mysqlNoTable       = 1146
	mysqlPacket        = 1153
	mysqlLockWait      = 1205
	mysqlDeadlock      = 1213
	mysqlReadOnly      = 1290
	mysqlNoDefault     = 1364
	mysqlEncoding      = 1366
	mysqlReadOnlyBegun = 1792
)

// mysqlNumber is the number of an error of MySQL; 0: it is none. The driver's error has it in a field, and applications without MySQL
// shall not pull the driver.
func mysqlNumber(err error) uint64 {
	for ; err != nil; err = errors.Unwrap(err) {
		v := reflect.Indirect(reflect.ValueOf(err))
		if v.Kind() == reflect.Struct && v.Type().Name() == "MySQLError" {
			if number := v.FieldByName("Number"); number.CanUint() {
				return number.Uint()
			}
		}
	}
	return 0
}

// refusedByMySQL reports whether MySQL answers a COMMIT with this number only if it rolled back.
func refusedByMySQL(number uint64) bool {
	return number == mysqlDeadlock || number == mysqlLockWait || number == mysqlReadOnly
}

// mysqlFix returns the remedy for an error's number, or "".
func (c *Client) mysqlFix(number uint64) string {
	switch number {
	case mysqlNoTable:
		return fixTable
	case mysqlNoColumn, mysqlNoDefault:
		return fixColumn
	case mysqlDenied:
		return fmt.Sprintf("let the application's user write: GRANT INSERT ON %s TO ...", c.table)
	case mysqlPacket:
		return "raise max_allowed_packet on the server, or publish in several calls in the same transaction"
	case mysqlReadOnly, mysqlReadOnlyBegun:
		return "publish in a read-write transaction on the primary server"
	case mysqlEncoding:
		return "the column's character set cannot hold the text; use utf8mb4"
	case mysqlDeadlock:
		return "the transaction was rolled back by the server; run it again"
	}
	return ""
}

// valuesOf repeats the parameters of a row.
func valuesOf(row string, n int) string { return row + strings.Repeat(",\n"+row, max(n-1, 0)) }

// orNull is a text as a parameter; empty: NULL.
func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// frameworkMySQLInsert is [frameworkInsert] for MySQL. Its DATETIME has no time zone, and is in UTC, as the relay reads it. The clock does not move within a
// statement, which takes longer than a microsecond for each row.
func frameworkMySQLInsert(table string, envelopes []Envelope) (query string, args []any) {
	for i, e := range envelopes {
		place := strconv.Itoa(i)
		args = append(args, e.id, e.typ, orNull(e.aggregateType), orNull(e.aggregateID), orNull(e.tenant), string(e.payload), orNull(frameworkHeaders(&e)), place, place)
	}
	return "INSERT INTO " + table + " (event_id, event_type, aggregate_type, aggregate_id, tenant_id, payload, headers, status, attempts, available_at, created_at) VALUES\n" +
		valuesOf("(?, ?, ?, ?, ?, ?, ?, 0, 0, utc_timestamp(6) + INTERVAL ? MICROSECOND, utc_timestamp(6) + INTERVAL ? MICROSECOND)", len(envelopes)), args
}

// publishMySQL is [FlowCatalyst.Publish] for MySQL. The clock does not move within a statement, where ids decide: rows whose ids do not ascend are
// written by several.
func (f *FlowCatalyst) publishMySQL(ctx context.Context, exec execFunc, items []FlowCatalystItem) (ids []string, err error) {
	ids = make([]string, len(items))
	statements, last := map[FlowCatalystKind][][]any{}, map[FlowCatalystKind]string{}
	var kinds []FlowCatalystKind
	for i := range items {
		kind := cmp.Or(items[i].Kind, FlowCatalystEvent)
		if ids[i], err = f.check(kind, &items[i]); err != nil {
			return nil, fmt.Errorf("outbox: publish: item %d of %d: %w", i+1, len(items), err)
		}
		all := statements[kind]
		if all == nil {
			kinds = append(kinds, kind)
		}
		if n := len(all); n == 0 || ids[i] <= last[kind] || len(all[n-1]) == 3*mysqlRows {
			all = append(all, nil)
		}
		n := len(all) - 1
		all[n] = append(all[n], ids[i], orNull(items[i].Group), string(items[i].Payload))
		statements[kind], last[kind] = all, ids[i]
	}
	for _, kind := range kinds {
		for _, args := range statements[kind] {
			query := "INSERT INTO " + f.tables[kind] + " (id, type, message_group, payload, status, retry_count, created_at) VALUES\n" +
				valuesOf("(?, '"+string(kind)+"', ?, ?, 'PENDING', 0, current_timestamp(6))", len(args)/3)
			if err := exec(ctx, query, args...); err != nil {
				return nil, fmt.Errorf("outbox: publish into table %s: %w", f.tables[kind], (&Client{dialect: MySQL, table: f.tables[kind]}).explain(err))
			}
		}
	}
	return ids, nil
}

// talkieMySQLInsert is the statement of a [Talkie] client for MySQL.
func talkieMySQLInsert(table string) string {
	return "INSERT INTO " + table + " (job_id, topic, `key`, payload_json, idempotency_key, created_at) VALUES (?, ?, ?, ?, ?, current_timestamp(6))"
}

// publishMySQL is [Talkie.Publish] for MySQL. A key that is there refuses the statement, not the transaction; to have it ignored instead
// would ignore other mistakes, too.
func (t *Talkie) publishMySQL(ctx context.Context, tx any, m *TalkieMessage) (int64, error) {
	problems := tooLong(columnText{"topic", m.Topic, 255}, columnText{"key", m.Key, 255}, columnText{"idempotency key", m.IdempotencyKey, 255})
	if m.JobID != "" && !isUUID(m.JobID) {
		problems = append(problems, FieldError{"job id", "is no UUID"})
	}
	if len(problems) > 0 {
		return 0, fmt.Errorf("outbox: publish: %w", &EnvelopeError{Type: m.Topic, Fields: problems})
	}
	in, ok := tx.(sqlTx)
	if !ok {
		return 0, fmt.Errorf("outbox: publish: a %T is not a transaction in MySQL: %w", tx, ErrNoTransaction)
	}
	insert, args := t.insert, []any{orNull(m.JobID), m.Topic, orNull(cmp.Or(m.Key, m.JobID)), string(m.Payload), orNull(m.IdempotencyKey)}
	if m.JobID == "" {
		insert, args = t.jobless, args[1:]
	}
	result, err := in.ExecContext(ctx, insert, args...)
	if m.IdempotencyKey != "" && mysqlNumber(err) == mysqlDuplicate {
		return Duplicate, nil
	}
	var id int64
	if err == nil {
		id, err = result.LastInsertId()
	}
	switch {
	case errors.Is(err, sql.ErrTxDone):
		return 0, fmt.Errorf("outbox: publish: %w", notEnded(err))
	case err != nil:
		return 0, fmt.Errorf("outbox: publish into table %s: %w", t.table, (&Client{dialect: MySQL, table: t.table}).explain(err))
	}
	return id, nil
}
