package queuetable

import (
	"strings"

	"github.com/outriderhq/outrider/adapters/sqlite/internal/lite"
)

// Parameters of the statements that settle: each takes those that it has a use for.
const (
	argKey      = "?1"
	argStamp    = "?2" // when the row was marked, in tables with claims
	argFormer   = "?3"
	argAttempts = "?4"
	argError    = "?5"
	argDue      = "?6" // NULL: as it is
	argDone     = "?7" // now, as the column has it; so are the next ones
	argUpdated  = "?8"
	argNext     = "?9" // the next stamp
)

// buildWrites makes the statements that write.
func (s *statements) buildWrites() {
	l := s.layout
	c, st := &l.Columns, &l.Statuses
	key := lite.Quote(c.Key) + " = " + argKey
	ours := " WHERE " + key + " AND " + s.Statuses(st.Waiting()...)
	if !l.Claimless() {
		claimed := lite.Quote(c.Claimed)
		s.take = s.update(st.Processing, set(c.Claimed, argNext), set(c.Owner, "'outrider'"), s.touched()) + ours
		ours = " WHERE " + key + " AND " + s.Statuses(st.Processing) + " AND " + claimed + " IN (" + argStamp + ", " + argFormer + ")"
		s.renew = "UPDATE " + s.name + " SET " + set(c.Claimed, argNext) + ours
		s.stuck = "SELECT " + raw(c.Key) + ", " + raw(c.Claimed) + " FROM " + s.name + s.processing.pin() + " WHERE " + s.in([]string{st.Processing})
	}
	ended := []string{set(c.Attempts, argAttempts), set(c.Updated, argUpdated)}
	if l.ClaimEnds {
		ended = append(ended, set(c.Claimed, "NULL"), set(c.Owner, "NULL"))
	}
	with := func(more ...string) []string { return append(more, ended...) }
	due := ""
	if c.NextAttempt != "" {
		due = set(c.NextAttempt, "coalesce("+argDue+", "+lite.Quote(c.NextAttempt)+")")
	}
	failed := set(c.Error, argError)
	s.dead = map[string]string{}
	for _, status := range l.Dead() {
		s.dead[status] = s.update(status, with(failed, due)...) + ours
	}
	if l.ErrorWhenDead {
		failed = ""
	}
	s.done = s.update(st.Done, with(set(c.Done, argDone))...) + ours
	if l.DoneIsDeleted {
		s.done = "DELETE FROM " + s.name + ours
	}
	s.retry = s.update(st.Again(), with(failed, due)...) + ours
	s.put = "UPDATE " + s.name + " SET " + join(with(lite.Quote(c.Status)+" = "+s.waitingAgain(argAttempts))...) + ours
	if s.recover = s.recovering(); l.Claimless() {
		s.recover = ""
	}
	s.waits = "SELECT count(*) FROM " + s.name + ours
}

// waitingAgain is the status of a row that is put back: as if it had never been claimed.
func (s *statements) waitingAgain(attempts string) string {
	st := &s.layout.Statuses
	if st.Again() == st.Pending {
		return s.value(st.Pending)
	}
	return "CASE WHEN " + attempts + " > 0 THEN " + s.value(st.Again()) + " ELSE " + s.value(st.Pending) + " END"
}

// recovering puts a stuck row back.
func (s *statements) recovering() string {
	c := &s.layout.Columns
	attempts := "0"
	if c.Attempts != "" {
		attempts = lite.Quote(c.Attempts)
	}
	back := []string{lite.Quote(c.Status) + " = " + s.waitingAgain(attempts), set(c.Updated, argUpdated)}
	if s.layout.ClaimEnds {
		back = append(back, set(c.Claimed, "NULL"), set(c.Owner, "NULL"))
	}
	return "UPDATE " + s.name + " SET " + join(back...) + " WHERE " + lite.Quote(c.Key) + " = " + argKey + " AND " + s.Statuses(s.layout.Statuses.Processing)
}

// update is the beginning of a statement that changes the status.
func (s *statements) update(status string, more ...string) string {
	return "UPDATE " + s.name + " SET " + join(append([]string{lite.Quote(s.layout.Columns.Status) + " = " + s.value(status)}, more...)...)
}

// touched sets when the row was last changed, unless that is when it was claimed.
func (s *statements) touched() string {
	if s.layout.Columns.Updated == s.layout.Columns.Claimed {
		return ""
	}
	return set(s.layout.Columns.Updated, argUpdated)
}

// set assigns a column; empty: there is none.
func set(column, value string) string {
	if column == "" {
		return ""
	}
	return lite.Quote(column) + " = " + value
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
