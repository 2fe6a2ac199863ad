package middleware

import (
	"container/list"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/outriderhq/outrider/adapters"
)

// memory is an [adapters.DedupeStore] in this process: the newest ids, up to a limit.
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

const (
	// longestBatch bounds the events of one call of a store.
	longestBatch = 1000

	// storeTimeout bounds one call of a store.
	storeTimeout = 10 * time.Second

	// Of expired events twice as many are deleted as new ones are recorded, in steps of at least so many, or once a minute.
	expireStep  = 500
	expirePause = time.Minute
)

// Coalesce returns a store that gathers concurrent calls of Seen, and of Record, into one call of the given store each: what comes during a
// call goes together in the next. It also has expired events deleted, as new ones are recorded. [Dedupe] does this to its store; several that
// share a store may share the result, which Coalesce returns unchanged.
func Coalesce(store adapters.DedupeStore) adapters.DedupeStore {
	if _, ok := store.(*coalesced); ok {
		return store
	}
	c := &coalesced{DedupeStore: store, expired: time.Now()}
	c.seen.call = store.Seen
	c.recorded.call = c.record
	return c
}

type coalesced struct {
	adapters.DedupeStore
	seen     batcher[adapters.EventRef, bool]
	recorded batcher[adapters.SeenEvent, struct{}]

	// Used by the one call of record at a time.
	expirable int // expired events that may be deleted
	expired   time.Time
}

func (c *coalesced) Seen(ctx context.Context, events []adapters.EventRef) ([]bool, error) {
	return c.seen.do(ctx, events)
}

func (c *coalesced) Record(ctx context.Context, events []adapters.SeenEvent) error {
	_, err := c.recorded.do(ctx, events)
	return err
}

func (c *coalesced) record(ctx context.Context, events []adapters.SeenEvent) ([]struct{}, error) {
	if err := c.DedupeStore.Record(ctx, events); err != nil {
		return nil, err
	}
	c.expirable += 2 * len(events)
	if c.expirable >= expireStep || time.Since(c.expired) >= expirePause {
		// Keys that are not deleted now are deleted later; a store that fails will say so when something is asked of it.
		_, _ = c.Expire(ctx, max(c.expirable, expireStep))
		c.expirable, c.expired = 0, time.Now()
	}
	return make([]struct{}, len(events)), nil
}

// batcher gathers concurrent requests.
type batcher[K, V any] struct {
	call func(ctx context.Context, items []K) ([]V, error)

	mu      sync.Mutex
	waiting []*request[K, V]
	running bool
}

type request[K, V any] struct {
	items  []K
	values []V
	err    error
	done   chan struct{}
}

// do returns the values of the items, or an error if ctx ends first.
func (b *batcher[K, V]) do(ctx context.Context, items []K) ([]V, error) {
	r := &request[K, V]{items: items, done: make(chan struct{})}
	b.mu.Lock()
	b.waiting = append(b.waiting, r)
	if !b.running {
		b.running = true
		go b.run()
	}
	b.mu.Unlock()
	select {
	case <-r.done:
		return r.values, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// run makes calls until no request waits. Its context is no request's: a call answers many.
func (b *batcher[K, V]) run() {
	for {
		requests, items := b.take()
		if requests == nil {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
		values, err := b.call(ctx, items)
		cancel()
		if err == nil && len(values) != len(items) {
			err = fmt.Errorf("the store answered for %d events of %d", len(values), len(items))
		}
		for _, r := range requests {
			n := len(r.items)
			if r.err = err; err == nil {
				r.values, values = values[:n:n], values[n:]
			}
			close(r.done)
		}
	}
}

// take returns the waiting requests that fit into one call.
func (b *batcher[K, V]) take() (requests []*request[K, V], items []K) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, r := range b.waiting {
		if n > 0 && len(items)+len(r.items) > longestBatch {
			break
		}
		items = append(items, r.items...)
		n++
	}
	if n == 0 {
		b.running = false
		b.waiting = nil
		return nil, nil
	}
	requests, b.waiting = b.waiting[:n:n], b.waiting[n:]
	return requests, items
}
