package logtable

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
	"github.com/outriderhq/outrider/adapters/postgres/internal/wire"
)

// logTable is a table as the catalogue describes it, seen through a mapping.
type logTable struct {
	*mapping
	found map[string]pg.TableColumn
}

// describe reads the catalogue. A missing table is the server's own error.
func (m *mapping) describe(ctx context.Context, q pg.Querier) (*logTable, error) {
	found, err := pg.TableColumns(ctx, q, m.table.Sanitize())
	return &logTable{m, found}, err
}

// sound is describe for a table whose columns can be read.
func (m *mapping) sound(ctx context.Context, q pg.Querier) (*logTable, error) {
	t, err := m.describe(ctx, q)
	if err == nil {
		err = t.problems()
	}
	return t, err
}

// typesOf lists the types that a role takes; nil: any.
var typesOf = [roles][]uint32{
	rolePosition:   {pgtype.Int8OID, pgtype.Int4OID, pgtype.Int2OID},
	roleXID:        {pgtype.XID8OID, pgtype.Int8OID},
	rolePayload:    {pgtype.JSONOID, pgtype.JSONBOID, pgtype.TextOID, pgtype.VarcharOID, pgtype.ByteaOID},
	roleBytes:      {pgtype.JSONOID, pgtype.JSONBOID, pgtype.TextOID, pgtype.VarcharOID, pgtype.ByteaOID},
	roleHeaders:    {pgtype.JSONOID, pgtype.JSONBOID, pgtype.TextOID, pgtype.VarcharOID},
	roleTags:       {pgtype.JSONOID, pgtype.JSONBOID, pgtype.TextOID, pgtype.VarcharOID, pgtype.TextArrayOID, pgtype.VarcharArrayOID},
	roleOccurredAt: {pgtype.TimestamptzOID, pgtype.TimestampOID},
	roleCreatedAt:  {pgtype.TimestamptzOID, pgtype.TimestampOID},
}

// typeNames is the text of typesOf for people.
var typeNames = [roles]string{
	rolePosition: "smallint, integer or bigint", roleXID: "xid8, or bigint that holds one",
	rolePayload: "json, jsonb, text or bytea", roleHeaders: "json, jsonb or text", roleTags: "json, jsonb, text or text[]",
	roleOccurredAt: "timestamptz or timestamp", roleCreatedAt: "timestamptz or timestamp",
}

// problems says what is wrong with the columns, each with its fix.
func (t *logTable) problems() error {
	var problems []error
	for r := range roles {
		name := t.columns[r]
		if name == "" || r == roleBytes {
			continue
		}
		c, ok := t.found[name]
		switch {
		case !ok && t.captured() && (r == rolePosition || r == roleXID):
			problems = append(problems, fmt.Errorf("there is no column %s for %s: run `outrider init`, which adds it without writing the table again", t.quoted(r), roleKeys[r]))
		case !ok && r == roleXID && t.layout == LayoutCustom:
			problems = append(problems, fmt.Errorf("there is no column %s for xid: %s", t.quoted(r), t.addXID()))
		case !ok:
			problems = append(problems, fmt.Errorf("there is no column %s for %s; the table has %s", t.quoted(r), roleKeys[r], t.names()))
		case typesOf[r] != nil && !slices.Contains(typesOf[r], c.OID):
			problems = append(problems, fmt.Errorf("column %s is %s; what serves for %s is %s", t.quoted(r), c.Type, roleKeys[r], typeNames[r]))
		}
	}
	for _, h := range t.headers() {
		if _, ok := t.found[h.Column]; !ok {
			problems = append(problems, fmt.Errorf("there is no column %s for the header %s; the table has %s", pgx.Identifier{h.Column}.Sanitize(), h.Name, t.names()))
		}
	}
	return errors.Join(problems...)
}

// names lists the columns that there are.
func (t *logTable) names() string {
	var names []string
	for name := range t.found {
		names = append(names, pgx.Identifier{name}.Sanitize())
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// typeOf is the type of a role's column, 0 when there is none.
func (t *logTable) typeOf(r role) uint32 { return t.found[t.columns[r]].OID }

// selected is how a role's column is selected, and null its replacement in
// rows of other kinds. No cast here can fail, or one row could stop the table.
func (t *logTable) selected(r role) (column, null string) {
	name, oid := "o."+t.quoted(r), t.typeOf(r)
	binary := oid == pgtype.ByteaOID
	switch {
	case r == rolePosition:
		return name + "::bigint", "NULL::bigint"
	case r == roleXID && oid == pgtype.Int8OID:
		return name, "NULL::bigint"
	case r == roleXID:
		return name, "NULL::xid8"
	case r == roleBytes && binary:
		return wire.Within(name, oid, t.maxRow, "NULL"), "NULL::bytea"
	case r == roleBytes:
		return "NULL::bytea", "NULL::bytea"
	case r == roleHeaders && len(t.headers()) > 0:
		return t.selectedHeaders(), "NULL::text"
	case oid == pgtype.TimestamptzOID:
		return name, "NULL::timestamptz"
	case oid == pgtype.TimestampOID:
		return localTime(name), "NULL::timestamptz"
	case r == roleOccurredAt || r == roleCreatedAt:
		return "NULL::timestamptz", "NULL::timestamptz"
	case oid == 0 || r == rolePayload && binary:
		return "NULL::text", "NULL::text"
	case r == roleTags && isArray(oid):
		return wire.TagsWithin(name), "NULL::text"
	case r == roleHeaders || r == roleTags:
		return "(" + wire.MetadataWithin(name, oid) + ")::text", "NULL::text"
	case r == rolePayload:
		return "(" + wire.Within(name, oid, t.maxRow, "NULL") + ")::text", "NULL::text"
	}
	return wire.CutName(name, oid), "NULL::text"
}

// selectedHeaders makes an object of the columns that travel as headers. They are numbers and other values of a few bytes, so nothing bounds it.
func (t *logTable) selectedHeaders() string {
	var pairs []string
	for _, h := range t.headers() {
		value := "o." + pgx.Identifier{h.Column}.Sanitize()
		if t.captured() {
			value = connectValue(value, t.found[h.Column])
		}
		pairs = append(pairs, pg.Literal(h.Name)+", "+value)
	}
	return "json_strip_nulls(json_build_object(" + strings.Join(pairs, ", ") + "))::text"
}

// milliseconds matches the types of times that have at most three digits after the second.
var milliseconds = regexp.MustCompile(`\([0-3]\)`)

// connectValue is the text that Debezium and Kafka Connect make of a column for a header. Where they would write binary numbers
// (numeric without a scale) and intervals in microseconds, it is PostgreSQL's text.
func connectValue(name string, c pg.TableColumn) string {
	unit, zoned := "1000000", `US"Z"`
	if milliseconds.MatchString(c.Type) {
		unit, zoned = "1000", `MS"Z"`
	}
	switch c.OID {
	case pgtype.TimestamptzOID:
		return "to_char(" + name + ` AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.` + zoned + "')"
	case pgtype.TimestampOID, pgtype.TimeOID:
		return "(extract(epoch FROM " + name + ") * " + unit + ")::bigint::text"
	case pgtype.DateOID:
		return "(" + name + " - DATE '1970-01-01')::text"
	case pgtype.ByteaOID:
		return "translate(encode(" + name + ", 'base64'), E'\n', '')"
	case pgtype.TextArrayOID, pgtype.VarcharArrayOID:
		return "array_to_json(" + name + ")::text"
	}
	if c.OID == pgtype.BPCharOID {
		return name // a cast to text would cut its spaces
	}
	return name + "::text"
}

// isArray reports whether a column of tags is an array of texts.
func isArray(oid uint32) bool { return oid == pgtype.TextArrayOID || oid == pgtype.VarcharArrayOID }

// stored is how much is stored of a payload that is left out.
func (t *logTable) stored() string {
	return wire.Beyond("o."+t.quoted(rolePayload), t.typeOf(rolePayload), t.maxRow)
}

// localTime reads a timestamp without time zone in the time zone of our
// session, which is that of the database unless the role has one of its own.
// Times so far away that the conversion fails are none.
func localTime(column string) string {
	return "CASE WHEN " + column + " BETWEEN '0002-01-01' AND '9998-12-31' THEN " + column + "::timestamptz END"
}
