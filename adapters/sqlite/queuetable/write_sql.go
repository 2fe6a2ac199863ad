package queuetable

import "github.com/outriderhq/outrider/adapters/internal/queue"

// changes writes the statements that write.
func (s *statements) changes() *queue.Changes {
	c := &s.layout.Columns
	return &queue.Changes{Dialect: s, Layout: s.layout, Status: s.Status, Attempts: "{:attempts}", Error: "{:error}", Due: "{:due}", Now: func(column string) string {
		if column == c.Done && column != c.Updated {
			return "{:done}"
		}
		return "{:updated}"
	}}
}

// buildWrites makes the statements that write.
func (s *statements) buildWrites() {
	c, changes := &s.layout.Columns, s.changes()
	key := s.fill(" WHERE {key} = {:key}")
	ours := key + s.fill(" AND {waiting}")
	if s.Of.Marks {
		s.names["processing"] = s.in([]string{s.layout.Statuses.Processing})
		next := changes.Set(c.Claimed, "{:next}")
		s.take = changes.Take(next) + ours
		ours = key + s.fill(" AND {marked} AND {claimed} = {:stamp}")
		s.renew = s.fill("UPDATE {table} SET ") + next + ours
		s.stuck = s.fill("SELECT {raw_key}, {raw_claimed} FROM {table}") + s.processing.pin() + s.fill(" WHERE {processing}")
		s.recover = changes.PutBack() + key + s.fill(" AND {marked}")
	}
	s.Settles = changes.Settles(ours)
	s.waits = s.fill("SELECT count(*) FROM {table}") + ours
}
