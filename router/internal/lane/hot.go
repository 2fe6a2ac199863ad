package lane

import (
	"github.com/outriderhq/outrider/adapters"
)

// The hot path of lanes that are read by cursor: a row comes from memory before it is read. Its item has no place in the stream until the
// read comes to it; if it has ended by then its position is among those that are settled beyond the cursor, so that neither this
// session nor the next owner delivers the row again. The cursor itself moves by reads alone.

// hotAhead bounds the rows that came from memory and were not read yet: each is written with every settle until it is read.
const hotAhead = 128

// Expect notes, before it can be visible, that the row at a position may be claimed from memory. A read that comes first has it.
func (s *Stream) Expect(position int64) {
	s.session.mu.Lock()
	defer s.session.mu.Unlock()
	if s.session.runner.stopping || s.session.fenced != nil {
		return
	}
	if s.hot == nil {
		s.hot = map[int64]*Item{}
	}
	s.hot[position] = nil
}

// Unexpect forgets what [Stream.Expect] noted: the row is left to the read.
func (s *Stream) Unexpect(position int64) {
	s.session.mu.Lock()
	defer s.session.mu.Unlock()
	s.unexpectLocked(position)
}

func (s *Stream) unexpectLocked(position int64) {
	if it, expected := s.hot[position]; expected && it == nil {
		delete(s.hot, position)
	}
}

// Claim takes a row of a committed transaction into the lane that was expected, unless a read was faster, there is no room, or something before
// it in its group may not have come yet. Whatever happens, it is not expected any more. Claims take half of the window at most, because a read
// under way has been promised the rest.
func (s *Stream) Claim(row adapters.HotLogRow) {
	session := s.session
	route := session.Route
	matched := route.Match(row.Row)
	session.mu.Lock()
	defer session.mu.Unlock()
	if it, expected := s.hot[row.Position]; !expected || it != nil {
		return
	}
	s.unexpectLocked(row.Position)
	cost := int64(row.Size()) + route.Overhead()
	switch {
	case !matched, session.runner.stopping, session.lost, !s.whole:
		return
	case session.progress.pending() >= route.Window/2, len(s.hot)+len(s.skip) >= hotAhead:
		return
	}
	key := route.Key(row.Group)
	if key != "" && !row.Follows(s.Fetched, s.taken) || !route.Share.Take(cost) {
		return
	}
	it := newItem(session, key)
	it.row, it.cost, it.ahead = row.Row, cost, true
	s.hot[row.Position] = it
	session.progress.begin(it)
	session.admitLocked(it)
	session.runner.proceedLocked()
}

// taken reports whether the row at a position that was not read yet has been taken all the same.
func (s *Stream) taken(position int64) bool {
	_, settled := s.skip[position]
	return settled || s.hot[position] != nil
}
