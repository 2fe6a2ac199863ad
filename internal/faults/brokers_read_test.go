package faults_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/outriderhq/outrider/internal/faults/check"
)

// content is what a broker holds, in its order. It is read while the test runs, with a client of its own, and again after an error: the
// broker may be down.
type content struct {
	t *testing.T

	// read calls take for each message behind the last one that was taken, until there is none. The end of ctx is an error.
	read func(ctx context.Context) error

	mu       sync.Mutex
	stream   []check.Delivery
	distinct map[string]struct{}
}

// reading reads until the test ends.
func reading(t *testing.T, read func(ctx context.Context, take func(id, group string)) error) *content {
	c := &content{t: t, distinct: map[string]struct{}{}}
	c.read = func(ctx context.Context) error { return read(ctx, c.take) }
	return c
}

func (c *content) take(id, group string) {
	c.stream = append(c.stream, check.Delivery{ID: id, Group: group})
	c.distinct[id] = struct{}{}
}

// look reads what is new. An error is the broker's, which is down for a moment, unless it must be up.
func (c *content) look(up bool) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	ctx, cancel := context.WithTimeout(c.t.Context(), 30*time.Second)
	defer cancel()
	if err := c.read(ctx); err != nil && up {
		c.t.Fatal(err)
	}
}

func (c *content) arrived() int {
	c.look(false)
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.distinct)
}

func (c *content) all() [][]check.Delivery {
	c.look(true)
	c.mu.Lock()
	defer c.mu.Unlock()
	return [][]check.Delivery{c.stream}
}
