package statestore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
)

// leaderPing is how often the connection that holds a leader lock is asked
// whether it is there. A connection that is closed is noticed at once; this is
// for networks that swallow everything. It is the time for the answer as well.
const leaderPing = 2 * time.Second

// LeaderConfig says which advisory lock a [LeaderLock] is.
type LeaderConfig struct {
	// URL, TLS and Config are those of [Config]. They must not lead through a
	// pooler in transaction mode: the lock belongs to the session.
	URL    string
	TLS    TLS
	Config *pgxpool.Config

	// Key is the key of the session advisory lock, as in pg_advisory_lock(key).
	Key int64
}

// LeaderLock is a session advisory lock in PostgreSQL, on a connection of its own.
// It implements [adapters.LeaderLock]. A process that takes the same key in the same
// database by pg_advisory_lock or pg_try_advisory_lock stands by for us, and we for
// them.
type LeaderLock struct {
	pool *pgxpool.Pool // makes connections; holds none
	key  int64

	mu   sync.Mutex // guards the rest
	conn *pgx.Conn  // nil: none is open
	held *leadership
}

// leadership is one period of holding the lock.
type leadership struct {
	cancel context.CancelFunc
	lost   chan struct{} // closed by watch, which then uses the connection no more
}

var _ adapters.LeaderLock = (*LeaderLock)(nil)

// NewLeaderLock checks the configuration. It does not connect:
// [LeaderLock.TryLock] does.
func NewLeaderLock(ctx context.Context, cfg LeaderConfig) (*LeaderLock, error) {
	c := pg.Connection{URL: cfg.URL, TLS: cfg.TLS, Config: cfg.Config, Application: "outrider-leader", MaxConns: 1}
	pool, err := c.Open(ctx)
	if err != nil {
		return nil, fmt.Errorf("leader lock %d: %w", cfg.Key, err)
	}
	return &LeaderLock{pool: pool, key: cfg.Key}, nil
}

// String names the lock for people.
func (l *LeaderLock) String() string { return fmt.Sprintf("advisory lock %d", l.key) }

// TryLock implements [adapters.LeaderLock]. While another session holds the lock its
// connection stays open for the next try.
func (l *LeaderLock) TryLock(ctx context.Context) (<-chan struct{}, error) {
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
	if l.conn == nil {
		pooled, err := l.pool.Acquire(ctx)
		if err != nil {
			return nil, fmt.Errorf("leader lock: connect for %s: %w", l, pg.Plainly(err))
		}
		l.conn = pooled.Hijack() // out of the pool, so that the pool's hooks apply to it
	}
	var taken bool
	if err := l.conn.QueryRow(ctx, `SELECT pg_try_advisory_lock($1)`, l.key).Scan(&taken); err != nil {
		l.drop()
		return nil, fmt.Errorf("leader lock: take %s: %w", l, err)
	}
	if !taken {
		return nil, nil
	}
	watching, cancel := context.WithCancel(context.Background())
	l.held = &leadership{cancel: cancel, lost: make(chan struct{})}
	go watchLeadership(watching, l.conn, l.held.lost)
	return l.held.lost, nil
}

// watchLeadership closes lost when the connection is gone or ctx ends.
func watchLeadership(ctx context.Context, conn *pgx.Conn, lost chan<- struct{}) {
	defer close(lost)
	for ctx.Err() == nil {
		// Nothing is listened to: this returns when the connection breaks, or
		// after a while.
		waiting, cancel := context.WithTimeout(ctx, leaderPing)
		_, err := conn.WaitForNotification(waiting)
		cancel()
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return
		}
		asking, cancel := context.WithTimeout(ctx, leaderPing)
		err = conn.Ping(asking)
		cancel()
		if err != nil {
			return
		}
	}
}

// Unlock implements [adapters.LeaderLock].
func (l *LeaderLock) Unlock() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held != nil {
		l.drop()
	}
}

// drop closes the connection, and with it frees the lock. Call with the mutex
// held.
func (l *LeaderLock) drop() {
	if l.held != nil {
		l.held.cancel()
		<-l.held.lost
		l.held = nil
	}
	if l.conn == nil {
		return
	}
	// Bounded: a server that does not answer must not delay our end.
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = l.conn.Close(ctx) // the server releases the lock either way
	l.conn = nil
}

// Close gives the lock up and closes its connection.
func (l *LeaderLock) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop()
	l.pool.Close()
}
