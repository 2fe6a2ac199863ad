// Package leaderlock holds a lock of a database's session, on a connection of its own.
package leaderlock

import (
	"context"
	"fmt"
	"sync"

	"github.com/outriderhq/outrider/adapters"
)

// Session is a connection that may hold the lock.
type Session interface {
	// Take takes the lock without waiting, and reports whether it was free.
	Take(ctx context.Context) (taken bool, err error)

	// Watch returns when the lock is lost, or when ctx ends.
	Watch(ctx context.Context)

	// Close closes the connection, and so frees the lock. It is bounded: a server that does not answer must not delay our end.
	Close()
}

// Lock implements [adapters.LeaderLock].
type Lock struct {
	name  string
	open  func(ctx context.Context) (Session, error)
	close func()

	mu      sync.Mutex // guards the rest
	session Session    // nil: none is open
	held    *leadership
}

// leadership is one period of holding the lock.
type leadership struct {
	cancel context.CancelFunc
	lost   chan struct{} // closed when the session is used no more
}

var _ adapters.LeaderLock = (*Lock)(nil)

// New returns a lock by its name for people. It opens no session: [Lock.TryLock] does. closeAll ends what opens them.
func New(name string, open func(ctx context.Context) (Session, error), closeAll func()) *Lock {
	return &Lock{name: name, open: open, close: closeAll}
}

// String names the lock for people.
func (l *Lock) String() string { return l.name }

// TryLock implements [adapters.LeaderLock]. While another session holds the lock its
// connection stays open for the next try.
func (l *Lock) TryLock(ctx context.Context) (<-chan struct{}, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held != nil {
		select {
		case <-l.held.lost:
			l.drop()
		default:
			return nil, fmt.Errorf("leader lock: %s is held already", l)
		}
	}
	if l.session == nil {
		session, err := l.open(ctx)
		if err != nil {
			return nil, err
		}
		l.session = session
	}
	taken, err := l.session.Take(ctx)
	if err != nil {
		l.drop()
		return nil, err
	}
	if !taken {
		return nil, nil
	}
	watching, cancel := context.WithCancel(context.Background())
	held := &leadership{cancel: cancel, lost: make(chan struct{})}
	l.held = held
	go func(s Session) {
		defer close(held.lost)
		s.Watch(watching)
	}(l.session)
	return held.lost, nil
}

// Unlock implements [adapters.LeaderLock].
func (l *Lock) Unlock() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held != nil {
		l.drop()
	}
}

// drop closes the session, and with it frees the lock. Call with the mutex
// held.
func (l *Lock) drop() {
	if l.held != nil {
		l.held.cancel()
		<-l.held.lost
		l.held = nil
	}
	if l.session != nil {
		l.session.Close()
		l.session = nil
	}
}

// Close gives the lock up and closes its connection.
func (l *Lock) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop()
	l.close()
}
