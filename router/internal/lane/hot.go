package lane

import (
	"github.com/outriderhq/outrider/adapters"
)

// The hot path of lanes that are read by cursor: a row comes from memory before it is read. Its item has no index in the stream until the
// read brings the row; if it has ended by then, its position is settled beyond the cursor, so neither this session nor the next owner
// delivers the row again. Only reads move the cursor.

// hotAhead bounds the rows that came from memory and were not read yet: every settle writes them until they are read.
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

// Unexpect undoes [Stream.Expect]: the row is left to the read.
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

// Claim takes an expected row of a committed transaction into the lane, unless a read was faster, there is no room, or rows before it in
// its group may not have come yet. In any case it is not expected any more. Claims take half of the window at most: a read in flight may
// use the rest.
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
	if key != "" && !row.Follows(s.Fetched, s.taken) || !route.Memory.Take(cost) {
		return
	}
	it := newItem(session, key)
	it.row, it.cost, it.ahead = row.Row, cost, true
	s.hot[row.Position] = it
	session.progress.begin(it)
	session.admitLocked(it)
	session.runner.proceedLocked()
}

// taken reports whether the row at a position that was not read yet is in the lane or settled.
func (s *Stream) taken(position int64) bool {
	_, settled := s.skip[position]
	return settled || s.hot[position] != nil
}
