package queuetable

import (
	"context"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/queue"
	"github.com/outriderhq/outrider/adapters/internal/sqltext"
	"github.com/outriderhq/outrider/adapters/mysql/internal/my"
)

var _ queue.Dialect = (*statements)(nil)

// newOperators returns the methods for operators' commands.
func newOperators(q *Queue, cfg *Config) queue.Operators {
	return queue.NewOperators(queue.Database{Queue: "mysql queue", DB: q.db, Tables: cfg.Tables, Layout: &cfg.Layout, MaxRow: q.tables[0].MaxRow, Transact: my.Transact, Wrap: wrap,
		Describe: func(ctx context.Context, table string) (queue.Dialect, error) {
			return q.described(ctx, q.Driver(table))
		}})
}

// record makes room for a row.
func (t *table) record() *queue.Record {
	return queue.NewRecord(t.Table.Table, t.sql().layout, t.MaxRow, t.sql())
}

// Table implements [queue.Dialect]; so do the other methods.
func (s *statements) Table() string { return s.name }

// Raw is a column as it is.
func (s *statements) Raw(column string) string { return raw(column) }

func raw(column string) string {
	if column == "" {
		return "NULL"
	}
	return my.Quote(column)
}

// wait is for how many microseconds a row is not due.
func (s *statements) wait() string {
	if s.layout.Columns.NextAttempt == "" {
		return "NULL"
	}
	return "TIMESTAMPDIFF(MICROSECOND, NOW(6), " + my.Quote(s.layout.Columns.NextAttempt) + ")"
}

// Attempts is the expression of the failed attempts.
func (s *statements) Attempts() string {
	if s.layout.Columns.Attempts == "" {
		return "0"
	}
	return "COALESCE(" + my.Quote(s.layout.Columns.Attempts) + ", 0)"
}

// Group is the expression of outrider_queue for unfinished rows.
func (s *statements) Group() string {
	l := s.layout
	text := my.Literal(alone)
	if c := l.Columns.Group; c != "" {
		group := s.text(c)
		if l.GroupByType {
			group = "CONCAT(COALESCE(CONCAT(" + s.text(l.Columns.AggregateType) + ", ':'), ''), " + group + ")"
		}
		switch {
		case l.DefaultGroup != "":
			group = "COALESCE(" + group + ", " + my.Literal(l.DefaultGroup) + ")"
		case s.Of.Kind == "":
			group = "CASE WHEN OCTET_LENGTH(" + group + ") > 0 THEN " + group + " END"
		}
		text = "COALESCE(CONCAT(" + my.Literal(grouped) + ", " + group + "), " + text + ")"
	}
	return "LEFT(CAST(" + text + " AS BINARY), " + strconv.Itoa(queueBytes) + ")"
}

// Statuses is the condition that a row has one of the statuses.
func (s *statements) Statuses(statuses ...string) string {
	return s.In(my.Quote(s.layout.Columns.Status), statuses)
}

// plain is a column as a computed one may have it: the spaces behind a CHAR depend on the sql_mode of the session.
func (s *statements) plain(column string) string {
	if s.columnOf(column).kind == "char" {
		return "RTRIM(" + my.Quote(column) + ")"
	}
	return my.Quote(column)
}

// text is a column as part of a group's name. Bytes stay what they are: the server refuses a row whose bytes it is to make text of, and cannot.
func (s *statements) text(column string) string {
	if s.columnOf(column).bytes() {
		return s.plain(column)
	}
	return "CONVERT(" + s.plain(column) + " USING utf8mb4)"
}

// Aged are the rows in a state, by outrider_state.
func (s *statements) Aged(state queue.State) string {
	from := "FROM " + s.name + s.pin(s.byAge) + " WHERE " + my.Quote(stateColumn)
	if state == queue.Delivered {
		return from + " IS NULL AND " + s.Statuses(s.layout.Statuses.Done)
	}
	return from + " = " + strconv.Itoa(states[state])
}

// Lacks names the index of outrider_state, where it is missing.
func (s *statements) Lacks(queue.State) string {
	if s.has(s.byAge) {
		return ""
	}
	return s.byAge.name
}

// SkipLocked ends a query that locks rows.
func (s *statements) SkipLocked() string { return skipLocked }

// Grouped are the unfinished rows of a group, by outrider_queue.
func (s *statements) Grouped() string {
	return "FROM " + s.name + s.pin(s.byQueue) + " WHERE " + my.Quote(queueColumn) + " = ?"
}

// After is the condition that a row comes after a position in the order of age.
func (s *statements) After(at adapters.DeadKey) queue.Statement {
	text, args := sqltext.Bind(s.behind, sqltext.Args{"created": at.Created, "key": s.Key(at.Key)})
	return queue.Statement{Text: text, Args: args}
}

// GroupName is the name of a group in outrider_queue: in hexadecimal, where the column has bytes that are no text.
func (s *statements) GroupName(value string) (name string, ok bool) {
	if name, ok = strings.CutPrefix(value, grouped); ok && s.columnOf(s.layout.Columns.Group).bytes() && !isText(name) {
		name = hex.EncodeToString([]byte(name))
	}
	return name, ok
}

// isText reports whether bytes are text.
func isText(bytes string) bool {
	return utf8.ValidString(bytes) && !strings.ContainsFunc(bytes, unicode.IsControl)
}

// GroupValue is the value of outrider_queue for a group: bytes.
func (s *statements) GroupValue(name string) any {
	if b, err := hex.DecodeString(name); err == nil && s.columnOf(s.layout.Columns.Group).bytes() && !isText(string(b)) {
		name = string(b)
	}
	return []byte(grouped + name)
}

// BytePayloads reports whether payloads are in a column of bytes.
func (s *statements) BytePayloads() (bytes, orJSON bool) {
	return s.columnOf(s.layout.Columns.Payload).bytes(), false
}

// Key is a key for a statement; nil: none is written so.
func (s *statements) Key(text string) any {
	of := s.columnOf(s.layout.Columns.Key)
	if _, err := strconv.ParseFloat(text, 64); err != nil && of.number() { // the server would take its first digits, and read the whole table
		return nil
	}
	if of.bytes() {
		if b, err := hex.DecodeString(text); err == nil {
			return b
		}
	}
	return text
}

// KeyText is a key as text: of a column of bytes, such as BINARY(16), in hexadecimal.
func (s *statements) KeyText(value any) string {
	if v, ok := value.([]byte); ok && s.columnOf(s.layout.Columns.Key).bytes() {
		return hex.EncodeToString(v)
	}
	return s.Text(value)
}

// timeText is the form of times in [adapters.DeadKey].
const timeText = "2006-01-02 15:04:05.000000"

// Text is a value as text.
func (s *statements) Text(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case []byte:
		return string(v)
	case time.Time:
		return v.UTC().Format(timeText)
	}
	return fmt.Sprint(value)
}

// Time is the time that a column's value says; zero: none.
func (s *statements) Time(column string, value any) (time.Time, error) {
	switch v := value.(type) {
	case nil:
		return time.Time{}, nil
	case time.Time:
		return v, nil
	}
	return time.Time{}, fmt.Errorf("%s is no time: %v", column, value)
}

// Redrive makes a row wait as for its first attempt. The error, and when the row was
// last claimed, stay, as the systems that write such tables leave them when a row waits again.
func (s *statements) Redrive() queue.Statement {
	c, changes := &s.layout.Columns, s.changes()
	return queue.Statement{Text: changes.Update(s.Status(s.layout.Statuses.Pending), changes.Set(c.Attempts, "0"),
		changes.Set(c.NextAttempt, s.now(c.NextAttempt)), changes.Set(c.Updated, s.now(c.Updated)))}
}
