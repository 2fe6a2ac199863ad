package queuetable

import (
	"github.com/outriderhq/outrider/adapters/internal/queue"
	"github.com/outriderhq/outrider/adapters/sqlite/internal/lite"
)

// Parameters of the statements that settle: each takes those that it has a use for.
const (
	argKey      = "?1"
	argStamp    = "?2" // when the row was marked, in tables with claims
	argAttempts = "?3"
	argError    = "?4"
	argDue      = "?5" // NULL: as it is
	argDone     = "?6" // now, as the column has it; so is the next one
	argUpdated  = "?7"
	argNext     = "?8" // the next stamp

	settleArgs = 8
)

// changes writes the statements that write.
func (s *statements) changes() *queue.Changes {
	c := &s.layout.Columns
	return &queue.Changes{Dialect: s, Layout: s.layout, Status: s.value, Attempts: argAttempts, Error: argError, Due: argDue, Now: func(column string) string {
		if column == c.Done && column != c.Updated {
			return argDone
		}
		return argUpdated
	}}
}

// buildWrites makes the statements that write.
func (s *statements) buildWrites() {
	c, st, changes := &s.layout.Columns, &s.layout.Statuses, s.changes()
	key := " WHERE " + lite.Quote(c.Key) + " = " + argKey
	ours := key + " AND " + s.Statuses(st.Waiting()...)
	if s.marks {
		claimed, processing := lite.Quote(c.Claimed), s.Statuses(st.Processing)
		s.take = changes.Take(changes.Set(c.Claimed, argNext)) + ours
		ours = key + " AND " + processing + " AND " + claimed + " = " + argStamp
		s.renew = "UPDATE " + s.name + " SET " + changes.Set(c.Claimed, argNext) + ours
		s.stuck = "SELECT " + raw(c.Key) + ", " + raw(c.Claimed) + " FROM " + s.name + s.processing.pin() + " WHERE " + s.in([]string{st.Processing})
		s.recover = changes.PutBack() + key + " AND " + processing
	}
	s.Settles = changes.Settles(ours)
	s.waits = "SELECT count(*) FROM " + s.name + ours
}
