package lane

import (
	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/router/internal/settling"
)

// The hot path of lanes that are read by cursor: a row comes from memory before it is read. Its item has no place in the stream until the
// read comes to it; if it has ended by then its position is among those that are settled beyond the cursor, so that neither this
// session nor the next owner delivers the row again. The cursor itself moves by reads alone.

// hotAhead bounds the rows that came from memory and were not read yet: each is written with every settle until it is read.
const hotAhead = 128

// Expect notes, before it can be visible, that the row at a position may be claimed from memory. A read that comes first has it.
func (s *Session) Expect(position int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runner.stopping || s.fenced != nil || len(s.progress.streams) != 1 {
		return
	}
	str := s.progress.streams[0]
	if str.hot == nil {
		str.hot = map[int64]*Item{}
	}
	str.hot[position] = nil
}

// Unexpect forgets what [Session.Expect] noted: the row is left to the read.
func (s *Session) Unexpect(position int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unexpectLocked(position)
}

func (s *Session) unexpectLocked(position int64) {
	str := s.progress.streams[0]
	if it, expected := str.hot[position]; expected && it == nil {
		delete(str.hot, position)
	}
}

// Claim takes a row of a committed transaction into the lane that was expected, unless a read was faster, there is no room, or something before
// it in its group may not have come yet. Whatever happens, it is not expected any more. Claims take half of the window at most, because a read
// under way has been promised the rest.
func (s *Session) Claim(row adapters.HotLogRow) {
	matched := s.Route.Match(row.Row)
	s.mu.Lock()
	defer s.mu.Unlock()
	str := s.progress.streams[0]
	if it, expected := str.hot[row.Position]; !expected || it != nil {
		return
	}
	s.unexpectLocked(row.Position)
	cost := int64(row.Size()) + s.Route.Overhead()
	switch {
	case !matched, s.runner.stopping, s.lost, !str.whole:
		return
	case s.progress.pending() >= s.Route.Window/2, len(str.hot)+len(str.skip) >= hotAhead:
		return
	}
	key := s.Route.Key(row.Group)
	if key != "" && !row.Follows(str.Fetched, str.taken) || !s.Route.Share.Take(cost) {
		return
	}
	it := newItem(s, key)
	it.row, it.cost, it.ahead = row.Row, cost, true
	str.hot[row.Position] = it
	s.progress.begin(it)
	s.admitLocked(it)
	s.runner.proceedLocked()
}

// taken reports whether the row at a position that was not read yet has been taken all the same.
func (s *Stream) taken(position int64) bool {
	_, settled := s.skip[position]
	return settled || s.hot[position] != nil
}

// meet gives an item that came from memory its place in the stream, now that its row was read; false: there is none.
func (p *progress) meet(str *Stream, position int64, index uint64) bool {
	it, expected := str.hot[position]
	if expected {
		delete(str.hot, position)
	}
	if it == nil {
		return false
	}
	it.stream, it.index, it.ahead = str, index, false
	p.extra--
	return true
}

// settleAhead notes that an item has ended whose row was not read yet.
func (p *progress) settleAhead(it *Item) {
	if !it.ahead {
		return
	}
	it.ahead = false
	str := p.streams[0]
	delete(str.hot, it.row.Position)
	str.skip[it.row.Position] = struct{}{}
	str.unwritten = settling.Concluded
}
