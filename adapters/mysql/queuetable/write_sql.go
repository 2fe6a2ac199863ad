package queuetable

import (
	"fmt"
	"strings"
	"time"

	"github.com/outriderhq/outrider/adapters/internal/queue"
	"github.com/outriderhq/outrider/adapters/mysql/internal/my"
)

// Statements that write name what they take: replaced by a placeholder, in the order in which they occur.
const (
	argAttempts = "{attempts}"
	argError    = "{error}"
	argDue      = "{due}"
	argStamp    = "{stamp}"
	argToken    = "{token}"
	argClaimed  = "{claimed}"
	argKeys     = "{keys}"
)

// changes writes the statements that write.
func (s *statements) changes() *queue.Changes {
	return &queue.Changes{Dialect: s, Layout: s.layout, Status: s.statusValue, Now: s.now, Kept: s.kept(), Attempts: argAttempts, Error: argError, Due: "NOW(6) + INTERVAL " + argDue + " MICROSECOND"}
}

// buildWrites makes the statements that write.
func (s *statements) buildWrites() {
	c, st, changes := &s.layout.Columns, &s.layout.Statuses, s.changes()
	keys, token := " WHERE "+my.Quote(c.Key)+" IN ("+argKeys+")", " AND "+my.Quote(claimColumn)+" = "+argToken
	ours := keys + " AND " + s.Statuses(st.Waiting()...)
	if s.marks {
		s.take = changes.Take(changes.Set(c.Claimed, argStamp), changes.Set(claimColumn, argToken)) + ours
		processing, claimed := " AND "+s.Statuses(st.Processing), " AND "+my.Quote(c.Claimed)+" = "+argClaimed
		ours = keys + processing + token + claimed
		s.renew = "UPDATE " + s.name + " SET " + changes.Set(c.Claimed, argStamp) + ours
		if changes.Kept != "" {
			s.renew = "UPDATE " + s.name + " SET " + changes.Set(c.Claimed, argStamp) + ", " + changes.Kept + ours
		}
		s.back = changes.PutBack(changes.Set(claimColumn, "0")) + keys + processing + claimed
		s.unclaim = s.back + token
	}
	s.Settles = changes.Settles(ours)
	byKey := "SELECT " + my.Quote(c.Key) + " FROM " + s.name + s.byKey()
	s.still, s.free = byKey+ours, byKey+keys+skipLocked
}

// skipLocked has a query lock what it finds, but what other transactions have locked: that is not found.
const skipLocked = " FOR UPDATE SKIP LOCKED"

// now is the present time for a column.
func (s *statements) now(column string) string {
	return fmt.Sprintf("NOW(%d)", s.precision(column))
}

// kept has a column keep its value that every UPDATE would set to the present time: when the row was created. Servers
// with explicit_defaults_for_timestamp=OFF make such columns of a plain TIMESTAMP.
func (s *statements) kept() string {
	c := s.layout.Columns.Created
	if !s.columnOf(c).updatesItself() {
		return ""
	}
	return my.Quote(c) + " = " + my.Quote(c)
}

// values are what a statement that writes takes.
type values struct {
	attempts       int
	err            any // nil: NULL
	due            any // in how many microseconds, by the server's clock; nil: as it is
	stamp, claimed time.Time
	token          int64
	keys           []any
}

// bind replaces what a statement names by placeholders, and returns their values.
func (v *values) bind(text string) (query string, args []any) {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "{")
		b.WriteString(before)
		if !found {
			return b.String(), args
		}
		name, after, _ := strings.Cut(rest, "}")
		text = after
		switch "{" + name + "}" {
		case argAttempts:
			args = append(args, v.attempts)
		case argError:
			args = append(args, v.err)
		case argDue:
			args = append(args, v.due)
		case argStamp:
			args = append(args, v.stamp)
		case argToken:
			args = append(args, v.token)
		case argClaimed:
			args = append(args, v.claimed)
		case argKeys:
			b.WriteString(list(len(v.keys)))
			args = append(args, v.keys...)
			continue
		default: // a brace in a name or a status
			b.WriteString("{" + name + "}")
			continue
		}
		b.WriteString("?")
	}
}
