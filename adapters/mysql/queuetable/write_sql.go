package queuetable

import (
	"fmt"
	"strings"
	"time"

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

// buildWrites makes the statements that write.
func (s *statements) buildWrites() {
	l := s.layout
	c, st := &l.Columns, &l.Statuses
	keys := my.Quote(c.Key) + " IN (" + argKeys + ")"
	ours := " WHERE " + keys + " AND " + s.Statuses(st.Waiting()...)
	if !l.Claimless() {
		s.take = s.update(st.Processing, set(c.Claimed, argStamp), set(claimColumn, argToken), set(c.Owner, "'outrider'"), s.touched()) + ours
		ours = " WHERE " + keys + " AND " + s.Statuses(st.Processing) + " AND " + my.Quote(claimColumn) + " = " + argToken +
			" AND " + my.Quote(c.Claimed) + " = " + argClaimed
		s.renew = "UPDATE " + s.name + " SET " + join(set(c.Claimed, argStamp), s.kept()) + ours
		s.back = s.recovering()
		s.unclaim = s.back + " AND " + my.Quote(claimColumn) + " = " + argToken
	}
	ended := []string{set(c.Attempts, argAttempts), set(c.Updated, s.now(c.Updated))}
	if l.ClaimEnds {
		ended = append(ended, set(c.Claimed, "NULL"), set(c.Owner, "NULL"))
	}
	with := func(more ...string) []string { return append(more, ended...) }
	due := ""
	if c.NextAttempt != "" {
		due = set(c.NextAttempt, "COALESCE("+argDue+", "+my.Quote(c.NextAttempt)+")")
	}
	failed := set(c.Error, argError)
	s.dead = map[string]string{}
	for _, status := range l.Dead() {
		s.dead[status] = s.update(status, with(failed, due)...) + ours
	}
	if l.ErrorWhenDead {
		failed = ""
	}
	s.done = s.update(st.Done, with(set(c.Done, s.now(c.Done)))...) + ours
	if l.DoneIsDeleted {
		s.done = "DELETE FROM " + s.name + ours
	}
	s.retry = s.update(st.Again(), with(failed, due)...) + ours
	s.put = "UPDATE " + s.name + " SET " + join(with(my.Quote(c.Status)+" = "+s.waitingAgain(argAttempts), s.kept())...) + ours
	s.still = "SELECT " + my.Quote(c.Key) + " FROM " + s.name + " FORCE INDEX (PRIMARY)" + ours + " FOR UPDATE"
}

// now is the present time for a column.
func (s *statements) now(column string) string {
	return fmt.Sprintf("NOW(%d)", s.precision(column))
}

// waitingAgain is the status of a row that is put back: as if it had never been claimed.
func (s *statements) waitingAgain(attempts string) string {
	st := &s.layout.Statuses
	if st.Again() == st.Pending {
		return s.statusValue(st.Pending)
	}
	return "CASE WHEN " + attempts + " > 0 THEN " + s.statusValue(st.Again()) + " ELSE " + s.statusValue(st.Pending) + " END"
}

// recovering puts stuck rows back whose claims are as they were read.
func (s *statements) recovering() string {
	c := &s.layout.Columns
	back := []string{my.Quote(c.Status) + " = " + s.waitingAgain(s.Attempts()), set(claimColumn, "0"), set(c.Updated, s.now(c.Updated)), s.kept()}
	if s.layout.ClaimEnds {
		back = append(back, set(c.Claimed, "NULL"), set(c.Owner, "NULL"))
	}
	return "UPDATE " + s.name + " SET " + join(back...) + " WHERE " + my.Quote(c.Key) + " IN (" + argKeys + ") AND " +
		s.Statuses(s.layout.Statuses.Processing) + " AND " + my.Quote(c.Claimed) + " = " + argClaimed
}

// update is the beginning of a statement that changes the status.
func (s *statements) update(status string, more ...string) string {
	return "UPDATE " + s.name + " SET " + join(append([]string{my.Quote(s.layout.Columns.Status) + " = " + s.statusValue(status), s.kept()}, more...)...)
}

// kept has a column keep its value that every UPDATE would set to the present time: when the row was created. Servers
// with explicit_defaults_for_timestamp=OFF make such columns of a plain TIMESTAMP.
func (s *statements) kept() string {
	c := s.layout.Columns.Created
	if !s.columnOf(c).updatesItself() {
		return ""
	}
	return set(c, my.Quote(c))
}

// touched sets when the row was last changed, unless that is when it was claimed.
func (s *statements) touched() string {
	c := &s.layout.Columns
	if c.Updated == c.Claimed {
		return ""
	}
	return set(c.Updated, s.now(c.Updated))
}

// set assigns a column; empty: there is none.
func set(column, value string) string {
	if column == "" {
		return ""
	}
	return my.Quote(column) + " = " + value
}

// join leaves out what is empty, and what is assigned already.
func join(parts ...string) string {
	var out []string
	seen := map[string]bool{}
	for _, p := range parts {
		column, _, _ := strings.Cut(p, " = ")
		if p != "" && !seen[column] {
			out = append(out, p)
			seen[column] = true
		}
	}
	return strings.Join(out, ", ")
}

// values are what a statement that writes takes.
type values struct {
	attempts       int
	err            any // nil: NULL
	due            any // nil: as it is
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
