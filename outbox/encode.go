package outbox

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// quoteTable quotes a table name, optionally with its schema, as an identifier.
func quoteTable(name string, dialect Dialect) (string, error) {
	parts := strings.Split(name, ".")
	if len(parts) > 2 {
		return "", fmt.Errorf(`table %q has more than one dot; write "table" or "schema.table"`, name)
	}
	for i, p := range parts {
		switch {
		case p == "":
			return "", fmt.Errorf(`table %q has an empty part; write "table" or "schema.table"`, name)
		case strings.ContainsAny(p, "\"`'[];"):
			return "", fmt.Errorf("table %q contains quotes, brackets or a semicolon; write the plain name, it is quoted for you", name)
		case nameProblem(p) != "":
			return "", fmt.Errorf("table %q %s", name, nameProblem(p))
		case dialect == MySQL && utf8.RuneCountInString(p) > 64:
			return "", fmt.Errorf("table %q: %q is longer than the 64 characters that MySQL takes for a name", name, p)
		case dialect == PostgreSQL && len(p) > 63:
			return "", fmt.Errorf("table %q: %q is longer than the 63 bytes that PostgreSQL keeps of a name", name, p)
		}
		if parts[i] = `"` + p + `"`; dialect == MySQL {
			parts[i] = "`" + p + "`"
		}
	}
	return strings.Join(parts, "."), nil
}

// insertColumns are the columns that publishing writes.
const insertColumns = "id, type, message_group, aggregate_type, aggregate_id, tenant_id, tags, headers, payload, payload_bytes, occurred_at"

// rowTime is when a row of a statement for PostgreSQL is created: each a microsecond after the one before, because the clock may not move from
// one row to the next, and the order of ids need not be that of the rows. The statement takes longer than that for a row.
const rowTime = "(SELECT pg_catalog.clock_timestamp()) + (ordinal - 1) * interval '1 microsecond'"

// postgresInsert is the statement for PostgreSQL. Its parameters are one array
// per column, so its text is constant: it is prepared once, and the limit of
// 65,535 parameters does not matter.
//
// Positions follow the order of the envelopes: the rows are ordered below the
// node that draws the identity's numbers, because a subquery with an ORDER BY
// is never merged into its parent.
//
// It runs with the application's search path. unnest of several arrays is grammar, not
// a function that another one could be put in front of.
func postgresInsert(table string) string {
	return "INSERT INTO " + table + " (" + insertColumns + ")\n" +
		"SELECT " + insertColumns + "\n" +
		"FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], " +
		"$7::json[], $8::json[], $9::json[], $10::bytea[], $11::timestamptz[])\n" +
		"WITH ORDINALITY AS m (" + insertColumns + ", ordinal)\n" +
		"ORDER BY ordinal"
}

// postgresArgs returns the arrays in the order of the statement's columns, as
// array literals: every driver and every mode of pgx can send text.
func postgresArgs(envelopes []Envelope) []any {
	cols := make([]arrayLiteral, 11)
	for _, e := range envelopes {
		cols[0].add(e.id)
		cols[1].add(e.typ)
		cols[2].addOrNull(e.group)
		cols[3].addOrNull(e.aggregateType)
		cols[4].addOrNull(e.aggregateID)
		cols[5].addOrNull(e.tenant)
		cols[6].addOrNull(encodeMap(e.tags))
		cols[7].addOrNull(encodeMap(e.headers))
		if e.binary {
			cols[8].null()
			cols[9].add(`\x` + hex.EncodeToString(e.payload))
		} else {
			cols[8].add(string(e.payload))
			cols[9].null()
		}
		cols[10].addOrNull(timeText(e.occurredAt))
	}
	return texts(cols)
}

// texts are arrays as arguments.
func texts(arrays []arrayLiteral) []any {
	args := make([]any, len(arrays))
	for i := range arrays {
		args[i] = arrays[i].String()
	}
	return args
}

// timeText returns a time as text, "" for the zero time: a message of a table that has no column for it.
func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format(time.RFC3339Nano)
}

// encodeMap returns a JSON object, "" for none.
func encodeMap(m map[string]string) string {
	if len(m) == 0 {
		return ""
	}
	raw, _ := json.Marshal(m) // a map of strings cannot fail to encode
	return string(raw)
}

// arrayLiteral builds the text of a one-dimensional PostgreSQL array.
type arrayLiteral struct{ b strings.Builder }

// inArray escapes what has a meaning within a quoted element.
var inArray = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

func (a *arrayLiteral) sep() {
	if a.b.Len() == 0 {
		a.b.WriteByte('{')
	} else {
		a.b.WriteByte(',')
	}
}

// add appends an element; quoted, so that "", "NULL" and braces are plain text.
func (a *arrayLiteral) add(s string) {
	a.sep()
	a.b.WriteByte('"')
	_, _ = inArray.WriteString(&a.b, s) // a strings.Builder never fails
	a.b.WriteByte('"')
}

func (a *arrayLiteral) null() {
	a.sep()
	a.b.WriteString("NULL")
}

func (a *arrayLiteral) addOrNull(s string) {
	if s == "" {
		a.null()
		return
	}
	a.add(s)
}

// String returns the literal.
func (a *arrayLiteral) String() string {
	if a.b.Len() == 0 {
		return "{}"
	}
	return a.b.String() + "}"
}
