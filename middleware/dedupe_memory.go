package middleware

import (
	"container/list"
	"context"
	"sync"
	"time"

	"github.com/outriderhq/outrider/adapters"
)

// memory is a [adapters.DedupeStore] in this process: the newest ids, at most so
// many.
type memory struct {
	limit int
	full  func() // called once, when an id is forgotten too early

	mu     sync.Mutex
	known  map[adapters.EventRef]*list.Element
	oldest *list.List // of remembered, by when they were recorded
	warned bool
}

type remembered struct {
	event   adapters.EventRef
	expires time.Time
}

func newMemory(limit int, full func()) *memory {
	return &memory{limit: limit, full: full, known: map[adapters.EventRef]*list.Element{}, oldest: list.New()}
}

func (m *memory) Seen(_ context.Context, events []adapters.EventRef) ([]bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]bool, len(events))
	for i, event := range events {
		if e := m.known[event]; e != nil {
			out[i] = time.Now().Before(content(e).expires)
		}
	}
	return out, nil
}

func (m *memory) Record(_ context.Context, events []adapters.SeenEvent) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	for _, s := range events {
		if e := m.known[s.EventRef]; e != nil {
			m.oldest.Remove(e)
		}
		m.known[s.EventRef] = m.oldest.PushBack(remembered{s.EventRef, now.Add(s.Keep)})
	}
	m.expire(now, len(events)+1)
	for len(m.known) > m.limit {
		m.forget(m.oldest.Front())
		if !m.warned {
			m.warned = true
			m.full()
		}
	}
	return nil
}

func (m *memory) Expire(_ context.Context, limit int) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.expire(time.Now(), limit), nil
}

// expire forgets the oldest ids whose time is over.
func (m *memory) expire(now time.Time, limit int) (n int) {
	for ; n < limit; n++ {
		e := m.oldest.Front()
		if e == nil || now.Before(content(e).expires) {
			break
		}
		m.forget(e)
	}
	return n
}

func (m *memory) forget(e *list.Element) {
	delete(m.known, content(e).event)
	m.oldest.Remove(e)
}

func content(e *list.Element) remembered {
	r, _ := e.Value.(remembered) // nothing else is in the list
	return r
}
