package outboxtable

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters/layout"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
	"github.com/outriderhq/outrider/adapters/postgres/internal/wire"
	"github.com/outriderhq/outrider/outbox"
)

// presetWriter writes a table of a layout that has a name: a message as a new row that waits for its first attempt.
//
// Rows come in the order of the batch, which that of time and numbers follows: the time of a row is that of the statement and
// one microsecond more than that of the row before it.
type presetWriter struct {
	fields []field
	id     string   // column with the event id
	known  []string // columns whose values are the message's, beside id
	text   string
}

// field is a column that is written.
type field struct {
	column string
	sql    string                        // the same for every row; or:
	value  func(*record) (string, error) // "" is NULL
	cast   string                        // type of the column, where text does not become it by itself
}

// Times of rows that are written.
const (
	nowSQL    = "(SELECT pg_catalog.clock_timestamp())"
	inTurnSQL = nowSQL + " + m.ordinal * interval '1 microsecond'"
)

// of describes the columns of a preset's table.
func (w *presetWriter) of(preset *layout.Preset, kind string, columns map[string]pg.TableColumn) {
	if preset.Queue != nil {
		w.queue(preset.Queue, kind, columns)
	} else {
		w.log(preset.Log, columns)
	}
	for i := range w.fields {
		f := &w.fields[i]
		switch c := columns[f.column]; c.Plain {
		case "", "text", "character varying", "bpchar": // a cast would cut what is too long
		default:
			f.cast = c.Plain
		}
	}
}

// add adds a column, unless the layout has none for it or it is written already.
func (w *presetWriter) add(f field) {
	if f.column != "" && !slices.Contains(w.columns(), f.column) {
		w.fields = append(w.fields, f)
	}
}

// message adds a column whose value is the message's.
func (w *presetWriter) message(column string, value func(*record) (string, error)) {
	w.add(field{column: column, value: value})
	w.known = append(w.known, column)
}

func (w *presetWriter) columns() (names []string) {
	for _, f := range w.fields {
		names = append(names, f.column)
	}
	return names
}

// metadata returns what a message has by a key of its metadata.
func metadata(key string) func(*record) (string, error) {
	return func(r *record) (string, error) { return r.meta(key), nil }
}

func eventID(r *record) (string, error) { return r.msg.UUID, nil }

func (w *presetWriter) queue(q *layout.Queue, kind string, columns map[string]pg.TableColumn) {
	q = q.In(func(name string) bool { _, ok := columns[name]; return ok })
	c := &q.Columns
	w.id = cmp.Or(q.EventID, c.Key)
	w.add(field{column: w.id, value: eventID})
	w.message(c.Type, typeOf(q, kind))
	w.message(c.AggregateType, metadata(outbox.MetaAggregateType))
	w.message(c.Group, groupOf(q, kind))
	w.message(c.AggregateID, metadata(outbox.MetaAggregateID))
	w.message(c.Tenant, metadata(outbox.MetaTenant))
	w.add(field{column: c.Payload, value: payloadOf(columns[c.Payload], false, false)})
	w.add(field{column: c.Status, sql: pg.Literal(q.Statuses.Pending)})
	w.add(field{column: c.Created, sql: inTurnSQL})
	w.add(field{column: c.Attempts, sql: "0"})
	w.add(field{column: c.NextAttempt, sql: nowSQL})
	w.add(field{column: c.Updated, sql: nowSQL})
	apart := map[string]bool{}
	for _, h := range q.Headers {
		apart[h.Name] = true
		if h.Column != c.Key {
			w.message(h.Column, metadata(h.Name))
		}
	}
	none, own := "", []string(nil)
	if columns[c.Headers].NotNull {
		none = "{}"
	}
	if q.CreatedIsOccurred {
		own = []string{outbox.MetaOccurredAt}
	}
	w.add(field{column: c.Headers, value: func(r *record) (string, error) { return cmp.Or(r.headers(apart, own), none), nil }})
}

// typeOf is what goes into the column for types of a queue.
func typeOf(q *layout.Queue, kind string) func(*record) (string, error) {
	switch {
	case kind != "":
		return func(*record) (string, error) { return kind, nil }
	case q.KindInType:
		return func(r *record) (string, error) { return cmp.Or(r.kind, q.DefaultKind), nil }
	}
	return metadata(outbox.MetaType)
}

// groupOf is what goes into the column for groups of a queue.
func groupOf(q *layout.Queue, kind string) func(*record) (string, error) {
	if !q.GroupByType && q.Columns.Group != q.Columns.AggregateID {
		return func(r *record) (string, error) { return strings.TrimPrefix(r.meta(outbox.MetaGroup), kind+":"), nil }
	}
	return func(r *record) (string, error) {
		group, id := r.meta(outbox.MetaGroup), r.meta(outbox.MetaAggregateID)
		switch {
		case group == "", group == id, group == r.meta(outbox.MetaAggregateType)+":"+id:
			return id, nil
		case id == "", r.groupTemplated:
			return group, nil
		}
		return "", fmt.Errorf("the table keeps the order of aggregates, and the message's group %q is not its aggregate: set group: \"{{.AggregateID}}\", "+
			"or another template of what is to be in order", group)
	}
}

// log describes a table that is append-only. Values without a column travel in its headers.
func (w *presetWriter) log(l *layout.Log, columns map[string]pg.TableColumn) {
	c := &l.Columns
	w.id = c.ID
	w.add(field{column: c.ID, value: eventID})
	var own []string
	for _, of := range []struct{ column, key string }{
		{c.Type, outbox.MetaType}, {c.Group, outbox.MetaGroup}, {c.AggregateType, outbox.MetaAggregateType},
		{c.AggregateID, outbox.MetaAggregateID}, {c.Tenant, outbox.MetaTenant}, {c.Tags, outbox.MetaTags}, {c.OccurredAt, outbox.MetaOccurredAt},
	} {
		if of.column == "" || strings.HasPrefix(of.column, "=") {
			own = append(own, of.key)
			continue
		}
		w.message(of.column, metadata(of.key))
	}
	payload := columns[c.Payload]
	if payload.Plain != "json" && payload.Plain != "jsonb" {
		own = append(own, outbox.MetaEncoding)
	}
	w.add(field{column: c.Payload, value: payloadOf(payload, true, l.NullPayload)})
	w.add(field{column: c.XID, sql: "pg_catalog.pg_current_xact_id()"})
	w.add(field{column: c.Headers, value: func(r *record) (string, error) { return cmp.Or(r.headers(nil, own), "{}"), nil }})
}

var errBytes = errors.New("the payload is not JSON, which the table's column for it wants")

// payloadOf is what goes into the column for payloads. Text that is no JSON can be in a log's column only; null: NULL is an empty
// payload.
func payloadOf(column pg.TableColumn, text, null bool) func(*record) (string, error) {
	if column.Plain == "bytea" {
		return func(r *record) (string, error) { return `\x` + hex.EncodeToString(r.msg.Payload), nil }
	}
	text = text && column.Plain != "json" && column.Plain != "jsonb"
	return func(r *record) (string, error) {
		if len(r.msg.Payload) == 0 && null {
			return "", nil
		}
		if r.binary() && !text && outbox.CheckJSON(r.msg.Payload) != nil {
			return "", errBytes
		}
		return string(r.msg.Payload), nil
	}
}

// insert is the statement. Its parameters are one array per column, so its text is constant.
func (w *presetWriter) insert(table pgx.Identifier, conflict string) string {
	var columns, values, params, names []string
	for _, f := range w.fields {
		columns = append(columns, pg.QuoteName(f.column))
		if f.sql != "" {
			values = append(values, f.sql)
			continue
		}
		params = append(params, fmt.Sprintf("$%d::text[]", len(params)+1))
		name := fmt.Sprintf("v%d", len(params))
		names = append(names, name)
		if f.cast != "" {
			values = append(values, "m."+name+"::"+f.cast)
		} else {
			values = append(values, "m."+name)
		}
	}
	return "INSERT INTO " + table.Sanitize() + " (" + strings.Join(columns, ", ") + ")\n" +
		"SELECT " + strings.Join(values, ", ") + "\n" +
		"FROM unnest(" + strings.Join(params, ", ") + ") WITH ORDINALITY AS m (" + strings.Join(names, ", ") + ", ordinal)\n" +
		"ORDER BY m.ordinal" + conflict
}

func (w *presetWriter) statement(records []*record, errs []error) (text string, args []any, ok bool) {
	ok = true
	for _, f := range w.fields {
		if f.sql != "" {
			continue
		}
		var a wire.Array
		for _, r := range records {
			value, err := f.value(r)
			if err != nil {
				errs[r.index], ok = outbox.Permanent(fmt.Errorf("sql: %w", err)), false
			}
			a.TextOrNull(value)
		}
		args = append(args, a.String())
	}
	return w.text, args, ok
}
