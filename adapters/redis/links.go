package redis

import (
	"context"
	"errors"
	"sync"

	"github.com/redis/go-redis/v9"
)

// mostLinks bounds the batches in flight. Redis executes one command at a time, so more of them gain nothing.
const mostLinks = 32

var (
	errClosed = errors.New("redis: the destination is closed")
	errBusy   = errors.New("redis: no connection was free")
)

// link is a client of its own for one delivery at a time. Closing it interrupts the delivery: the client has no other way to stop waiting.
type link struct {
	redis.UniversalClient

	asked  bool // unique is known
	unique bool // the server recognises repeated messages
}

// links are the clients of a destination.
type links struct {
	open func(connections int) redis.UniversalClient
	free chan struct{} // one for each link in use

	mu     sync.Mutex
	idle   []*link
	closed bool
}

func newLinks(open func(connections int) redis.UniversalClient) *links {
	return &links{open: open, free: make(chan struct{}, mostLinks)}
}

// take returns a link for one delivery, which gives it back.
func (l *links) take(ctx context.Context) (*link, error) {
	select {
	case l.free <- struct{}{}:
	case <-ctx.Done():
		return nil, errBusy
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		<-l.free
		return nil, errClosed
	}
	if n := len(l.idle); n > 0 {
		taken := l.idle[n-1]
		l.idle = l.idle[:n-1]
		return taken, nil
	}
	return &link{UniversalClient: l.open(1)}, nil
}

// give takes a link back. One that failed, or that was interrupted, is closed: what comes over it next would be the answer to something else, or it
// leads to a server that is the wrong one now.
func (l *links) give(back *link, sound bool) {
	l.mu.Lock()
	keep := sound && !l.closed
	if keep {
		l.idle = append(l.idle, back)
	}
	l.mu.Unlock()
	if !keep {
		_ = back.Close() // nothing is in flight
	}
	<-l.free
}

// use calls do with a link, which is closed when ctx ends before do returns.
func (l *links) use(ctx context.Context, do func(context.Context, *link) error) error {
	taken, err := l.take(ctx)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = taken.Close() })
	err = do(ctx, taken)
	l.give(taken, stop() && err == nil)
	return err
}

// close closes the links that are not in use, and no delivery gets one any more.
func (l *links) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for _, idle := range l.idle {
		_ = idle.Close() // nothing is in flight
	}
	l.idle = nil
}
