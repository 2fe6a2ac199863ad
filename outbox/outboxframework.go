package outbox

import (
	"maps"
	"time"
)

// layoutOutboxFramework is the layout of a client for the table of the JDBC outbox framework, as the configuration calls it.
const layoutOutboxFramework = "outbox-framework"

// frameworkInsert writes into the table of the outbox framework, as its client does: NEW, without attempts, available at once. Both times are the server's,
// so that the order of an aggregate does not depend on the clocks of its writers.
func frameworkInsert(table string) string {
	return "INSERT INTO " + table + " (event_id, event_type, aggregate_type, aggregate_id, tenant_id, payload, headers, status, attempts, available_at, created_at)\n" +
		"SELECT id, type, aggregate_type, aggregate_id, tenant_id, payload, headers, 0, 0, at, at\n" +
		"FROM (SELECT m.*, " + rowTime + " AS at FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::json[], $7::json[])\n" +
		"WITH ORDINALITY AS m (id, type, aggregate_type, aggregate_id, tenant_id, payload, headers, ordinal) ORDER BY ordinal) AS m"
}

// frameworkSQLiteInsert is the same for SQLite. Its one parameter is that of [sqliteInsert]. SQLite's clock has milliseconds, and does not move
// within a statement: further digits, which have room for all rows of a table, say where the row comes among those of the millisecond.
func frameworkSQLiteInsert(table string) string {
	now := "strftime('%Y-%m-%dT%H:%M:%f', 'now') || printf('%010dZ', key + 1 + (SELECT coalesce(max(_rowid_), 0) FROM " + table + "))"
	return "INSERT INTO " + table + " (event_id, event_type, aggregate_type, aggregate_id, tenant_id, payload, headers, status, attempts, available_at, created_at)\n" +
		"SELECT value->>'id', value->>'type', value->>'aggregate_type', value->>'aggregate_id', value->>'tenant', value->>'payload', value->>'headers', 0, 0, " + now + ", " + now + "\n" +
		"FROM json_each(?1)\nORDER BY key"
}

// frameworkArgs returns the arguments of [frameworkInsert].
func frameworkArgs(envelopes []Envelope) []any {
	cols := make([]arrayLiteral, 7)
	for _, e := range envelopes {
		cols[0].add(e.id)
		cols[1].add(e.typ)
		cols[2].addOrNull(e.aggregateType)
		cols[3].addOrNull(e.aggregateID)
		cols[4].addOrNull(e.tenant)
		cols[5].add(string(e.payload))
		cols[6].addOrNull(frameworkHeaders(&e))
	}
	return texts(cols)
}

// frameworkHeaders are the headers as the table has them: with the time when the event happened, for which there is no column.
func frameworkHeaders(e *Envelope) string {
	if len(e.headers) == MaxPairs { // then it happened when the row was created
		return encodeMap(e.headers)
	}
	all := maps.Clone(e.headers)
	if all == nil {
		all = map[string]string{}
	}
	all[MetaOccurredAt] = e.occurredAt.Format(time.RFC3339Nano)
	return encodeMap(all)
}

// frameworkSQLiteArgs returns the argument of [frameworkSQLiteInsert].
func frameworkSQLiteArgs(envelopes []Envelope) []any {
	rows := sqliteRows(envelopes)
	for i := range envelopes {
		payload := string(envelopes[i].payload)
		rows[i].Headers, rows[i].Payload, rows[i].Hex = frameworkHeaders(&envelopes[i]), &payload, nil
	}
	return sqliteDocument(rows)
}

// fitsFramework refuses what the table of the outbox framework has no place for.
func fitsFramework(e *Envelope) error {
	problems := tooLong(columnText{"id", e.id, 36}, columnText{"type", e.typ, 128}, columnText{"aggregate type", e.aggregateType, 64},
		columnText{"aggregate id", e.aggregateID, 128}, columnText{"tenant", e.tenant, 64})
	if e.group != "" && e.group != e.aggregateID {
		problems = append(problems, FieldError{"group", "the table has no column for it, and keeps the order of the aggregate; leave Group out and call Aggregate"})
	}
	if len(e.tags) > 0 {
		problems = append(problems, FieldError{"tags", "the table has no column for them; use headers"})
	}
	if e.binary && CheckJSON(e.payload) != nil {
		problems = append(problems, FieldError{"payload", "is bytes that are no JSON, the table's column is JSON"})
	}
	return misfit(e, problems)
}
