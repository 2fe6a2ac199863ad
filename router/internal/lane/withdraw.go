package lane

// WithdrawLocked takes what is behind an item of its group out of the lane, and with self the
// item too, to be given back to their origin.
func (s *Session) WithdrawLocked(it *Item, self bool) []*Item {
	tickets := s.gate.Cut(&it.Ticket, self)
	out := make([]*Item, len(tickets))
	for i, t := range tickets {
		out[i] = owner(t)
		s.outcomes.takeBack(out[i])
	}
	return out
}

// Evict is WithdrawLocked for callers without the mutex: give takes what was withdrawn,
// with the mutex held. Nothing is, of an item that has ended.
func (s *Session) Evict(it *Item, self bool, give func(out []*Item)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if it.phase != finished {
		give(s.WithdrawLocked(it, self))
	}
}
