package lane

import "github.com/outriderhq/outrider/adapters"

// Doubt says that a connection broke: behind it there may be another server from now on, which lacks the last commits.
func Doubt(s *Session) { s.doubt.Store(true) }

// Doubted reports whether [Doubt] was called since it was asked last, and returns the cursors that would be written.
func Doubted(s *Session) (cursors []adapters.Cursor, doubted bool) {
	if !s.doubt.Swap(false) {
		return nil, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, str := range s.progress.streams {
		cursors = append(cursors, str.settled)
	}
	return cursors, true
}
