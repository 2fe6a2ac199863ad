package queuetable

import (
	"context"
	"database/sql"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/queue"
	"github.com/outriderhq/outrider/adapters/internal/sqltext"
	"github.com/outriderhq/outrider/adapters/sqlite/internal/lite"
)

var _ queue.Dialect = (*statements)(nil)

// newOperators returns the methods for operators' commands.
func newOperators(q *Queue, cfg *Config) queue.Operators {
	return queue.NewOperators(queue.Database{Queue: "sqlite queue", DB: q.db, Tables: cfg.Tables, Layout: &cfg.Layout, MaxRow: q.tables[0].MaxRow, Transact: lite.Transact, Wrap: wrap,
		Within: func(ctx context.Context, tx *sql.Tx) context.Context { return lite.Within(ctx, cfg.Path, tx) },
		Describe: func(ctx context.Context, table string) (queue.Dialect, error) {
			return q.described(ctx, q.Driver(table))
		}})
}

// Table implements [queue.Dialect]; so do the other methods.
func (s *statements) Table() string { return s.name }

// Raw is a column as it is, whatever its type is called: the driver makes times of what is declared as one.
func (s *statements) Raw(column string) string { return raw(column) }

func raw(column string) string {
	if column == "" {
		return "NULL"
	}
	return "+" + lite.Quote(column)
}

// Attempts is the expression of the failed attempts.
func (s *statements) Attempts() string {
	if s.layout.Columns.Attempts == "" {
		return "0"
	}
	return "CAST(coalesce(" + lite.Quote(s.layout.Columns.Attempts) + ", 0) AS INTEGER)"
}

// Group is the expression of the group.
func (s *statements) Group() string {
	if s.group == "" {
		return "NULL"
	}
	return s.group
}

// in is the condition that a row has one of the statuses. An index has it word for word.
func (s *statements) in(statuses []string) string {
	return s.In(lite.Quote(s.layout.Columns.Status), statuses)
}

// Statuses is the same condition where no index is to be used for it.
func (s *statements) Statuses(statuses ...string) string { return "+" + s.in(statuses) }

// Aged are the rows in a state, by their partial index.
func (s *statements) Aged(state queue.State) string {
	index, statuses := s.aged(state)
	return "FROM " + s.name + index.pin() + " WHERE " + s.in(statuses)
}

// aged are the statuses of a state, with the index that has them by age.
func (s *statements) aged(state queue.State) (*index, []string) {
	switch state {
	case queue.Dead:
		return s.byDead, s.layout.Dead()
	case queue.Delivered:
		return s.byDone, []string{s.layout.Statuses.Done}
	case queue.Unfinished:
	}
	return s.byAge, s.Unfinished()
}

// Lacks names the index, where it is missing.
func (s *statements) Lacks(state queue.State) string {
	if index, _ := s.aged(state); index != nil && !index.there {
		return index.name
	}
	return ""
}

// SkipLocked is nothing: the transaction is the only one that writes.
func (s *statements) SkipLocked() string { return "" }

// Grouped are the unfinished rows of a group.
func (s *statements) Grouped() string {
	return "FROM " + s.name + s.byGroup.pin() + " WHERE " + s.group + " = ? AND " + s.in(s.Unfinished())
}

// After is the condition that a row comes after a position in the order of age.
func (s *statements) After(at adapters.DeadKey) queue.Statement {
	text, args := sqltext.Bind(s.behind, sqltext.Args{"created": s.typed(s.layout.Columns.Created, at.Created), "key": s.Key(at.Key)})
	return queue.Statement{Text: text, Args: args}
}

// GroupName is the group as it is.
func (s *statements) GroupName(value string) (name string, ok bool) { return value, true }

// GroupValue is the group as it is.
func (s *statements) GroupValue(name string) any { return name }

// BytePayloads reports whether payloads are bytes, by the column's declared type. Without one a column has both.
func (s *statements) BytePayloads() (bytes, orJSON bool) {
	c := s.layout.Columns.Payload
	return s.affinity(c) == affinityNone, s.types[strings.ToLower(c)] == ""
}

// Key is the key whose [statements.KeyText] is the text.
func (s *statements) Key(text string) any { return s.typed(s.layout.Columns.Key, text) }

// KeyText is a key as a text that no other key has: SQLite keeps values of any type in a column. Bytes are written as SQL writes them, and
// so is text that would be read as a value of another type.
func (s *statements) KeyText(value any) string {
	switch v := value.(type) {
	case []byte:
		return fmt.Sprintf("x'%x'", v)
	case string:
		if s.Key(v) != any(v) {
			return literal(v)
		}
	}
	return textOf(value)
}

// typed is the value of a column whose text is given. The affinity of most columns converts text to numbers, or numbers to text.
func (s *statements) typed(column, text string) any {
	if body, ok := strings.CutSuffix(text, "'"); ok {
		digits, isHex := strings.CutPrefix(body, "x'")
		if b, err := hex.DecodeString(digits); isHex && err == nil && digits == strings.ToLower(digits) {
			return b
		}
		plain := strings.ReplaceAll(strings.TrimPrefix(body, "'"), "''", "'")
		if literal(plain) == text {
			return plain
		}
	}
	if s.affinity(column) == affinityNone {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil && textOf(n) == text {
			return n
		}
		if f, err := strconv.ParseFloat(text, 64); err == nil && textOf(f) == text {
			return f
		}
	}
	return text
}

// Text is a value as text.
func (s *statements) Text(value any) string { return textOf(value) }

// textOf is a value as text.
func textOf(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case string:
		return v
	case []byte:
		return string(v)
	}
	return fmt.Sprint(value)
}

// Time is the time that a column's value says; zero: none.
func (s *statements) Time(column string, value any) (time.Time, error) { return timeOf(column, value) }

func timeOf(column string, value any) (time.Time, error) {
	switch v := value.(type) {
	case nil:
		return time.Time{}, nil
	case int64:
		return time.UnixMilli(v), nil
	case time.Time:
		return v, nil
	case []byte:
		return lite.Instant(column, sql.NullString{String: string(v), Valid: true})
	case string:
		return lite.Instant(column, sql.NullString{String: v, Valid: true})
	}
	return time.Time{}, fmt.Errorf("%s is %v, not a time as RFC 3339 writes it", column, value)
}

// Redrive makes a row wait as for its first attempt. The error, and when the row was
// last claimed, stay, as the systems that write such tables leave them when a row waits again.
func (s *statements) Redrive() queue.Statement {
	c, now := &s.layout.Columns, time.Now()
	at := func(column string) string {
		if n, ok := s.timeValue(column, textTime, now).(int64); ok {
			return strconv.FormatInt(n, 10)
		}
		return literal(now.UTC().Format(textTime))
	}
	changes := s.changes()
	return queue.Statement{Text: changes.Update(s.Status(s.layout.Statuses.Pending), changes.Set(c.Attempts, "0"), changes.Set(c.NextAttempt, at(c.NextAttempt)), changes.Set(c.Updated, at(c.Updated)))}
}
