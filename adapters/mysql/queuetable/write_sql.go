package queuetable

import (
	"fmt"
	"time"

	"github.com/outriderhq/outrider/adapters/internal/queue"
	"github.com/outriderhq/outrider/adapters/internal/sqltext"
	"github.com/outriderhq/outrider/adapters/mysql/internal/my"
)

// changes writes the statements that write.
func (s *statements) changes() *queue.Changes {
	return &queue.Changes{Dialect: s, Layout: s.layout, Status: s.Status, Now: s.now, Kept: s.kept(), Attempts: "{:attempts}", Error: "{:error}", Due: "NOW(6) + INTERVAL {:due} MICROSECOND"}
}

// buildWrites makes the statements that write.
func (s *statements) buildWrites() {
	c, changes := &s.layout.Columns, s.changes()
	keys := s.fill(" WHERE {key} IN ({:keys})")
	ours := keys + s.fill(" AND {waiting}")
	if s.Of.Marks {
		stamp, claimed, token := changes.Set(c.Claimed, "{:stamp}"), s.fill(" AND {marked} AND {claimed} = {:claimed}"), s.fill(" AND {token} = {:token}")
		s.take = changes.Take(stamp, changes.Set(claimColumn, "{:token}")) + ours
		ours = keys + claimed + token
		s.renew = s.fill("UPDATE {table} SET ") + stamp + ours
		if changes.Kept != "" {
			s.renew = s.fill("UPDATE {table} SET ") + stamp + ", " + changes.Kept + ours
		}
		s.back = changes.PutBack(changes.Set(claimColumn, "0")) + keys + claimed
		s.unclaim = s.back + token
	}
	s.Settles = changes.Settles(ours)
	byKey := s.fill("SELECT {key} FROM {table}{by_key}")
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

// values are the arguments of a statement that writes.
type values struct {
	attempts       int
	err            any // nil: NULL
	due            any // in how many microseconds, by the server's clock; nil: as it is
	stamp, claimed time.Time
	token          int64
	keys           []any
}

// bind puts the values into a statement.
func (v *values) bind(text string) (query string, args []any) {
	return sqltext.Bind(text, sqltext.Args{"attempts": v.attempts, "error": v.err, "due": v.due, "stamp": v.stamp, "token": v.token, "claimed": v.claimed, "keys": v.keys})
}
