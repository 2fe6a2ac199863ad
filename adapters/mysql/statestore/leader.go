package statestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/mysql/internal/my"
)

const (
	// leaderLook is how often the connection that holds a leader lock is asked whether it still does; it is the time for the
	// answer as well.
	leaderLook = time.Second

	// longestLock is how many characters the name of a lock may have.
	longestLock = 64
)

// LeaderConfig says which lock a [LeaderLock] is.
type LeaderConfig struct {
	// URL and TLS are those of [Config].
	URL string
	TLS TLS

	// Name of the lock, as in GET_LOCK(name, ...): at most 64 characters, in any case. It is one of the whole server, not of a
	// database.
	Name string
}

// LeaderLock is a lock of a session in MariaDB or MySQL, on a connection of its own.
// It implements [adapters.LeaderLock]. A process that takes the same name on the same
// server by GET_LOCK stands by for us, and we for them. Servers of a cluster do not share such locks: all
// have to name the same one.
type LeaderLock struct {
	db   *sql.DB // makes connections; keeps none
	name string

	mu   sync.Mutex // guards the rest
	conn *sql.Conn  // nil: none is open
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
func NewLeaderLock(cfg LeaderConfig) (*LeaderLock, error) {
	if n := utf8.RuneCountInString(cfg.Name); n == 0 || n > longestLock {
		return nil, fmt.Errorf("leader lock: the name %q has %d characters; use 1 to %d", cfg.Name, n, longestLock)
	}
	db, err := alone(my.Connection{URL: cfg.URL, TLS: cfg.TLS, MaxConns: 1})
	if err != nil {
		return nil, fmt.Errorf("leader lock %q: %w", cfg.Name, err)
	}
	return &LeaderLock{db: db, name: cfg.Name}, nil
}

// String names the lock for people.
func (l *LeaderLock) String() string { return fmt.Sprintf("GET_LOCK(%q)", l.name) }

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
		conn, err := l.db.Conn(ctx)
		if err != nil {
			return nil, my.Describe("leader lock", "connect for "+l.String(), err)
		}
		l.conn = conn
	}
	var taken sql.NullInt64
	err := l.conn.QueryRowContext(ctx, `SELECT get_lock(?, 0)`, l.name).Scan(&taken)
	if err == nil && !taken.Valid {
		err = errors.New("the server could not say whether it is free")
	}
	if err != nil {
		l.drop()
		return nil, my.Describe("leader lock", "take "+l.String(), err)
	}
	if taken.Int64 != 1 {
		return nil, nil
	}
	watching, cancel := context.WithCancel(context.Background())
	l.held = &leadership{cancel: cancel, lost: make(chan struct{})}
	go watchLeadership(watching, l.conn, l.name, l.held.lost)
	return l.held.lost, nil
}

// watchLeadership closes lost when the connection is gone, or has the lock no more, or ctx ends.
func watchLeadership(ctx context.Context, conn *sql.Conn, name string, lost chan<- struct{}) {
	defer close(lost)
	tick := time.NewTicker(leaderLook)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaderLook)
		var ours sql.NullBool
		err := conn.QueryRowContext(asking, `SELECT is_used_lock(?) = connection_id()`, name).Scan(&ours)
		cancel()
		if err != nil || !ours.Bool {
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
	if l.conn != nil {
		release(l.conn, "?", l.name)
		l.conn = nil
	}
}

// Close gives the lock up and closes its connection.
func (l *LeaderLock) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop()
	_ = l.db.Close() // it keeps no connection
}
