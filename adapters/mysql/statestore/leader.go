package statestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/outriderhq/outrider/adapters/internal/leaderlock"
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
// server by GET_LOCK waits for us, and we for it. Servers of a cluster do not share such locks: all
// have to name the same one.
type LeaderLock = leaderlock.Lock

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
	name := fmt.Sprintf("GET_LOCK(%q)", cfg.Name)
	return leaderlock.New(name, func(ctx context.Context) (leaderlock.Session, error) {
		conn, err := db.Conn(ctx)
		return &leaderSession{conn, cfg.Name}, my.Describe("leader lock", "connect for "+name, err)
	}, func() { _ = db.Close() }), nil // it keeps no connection
}

// leaderSession is a connection that may hold the lock.
type leaderSession struct {
	conn *sql.Conn
	name string
}

// Take implements [leaderlock.Session].
func (s *leaderSession) Take(ctx context.Context) (bool, error) {
	var taken sql.NullInt64
	err := s.conn.QueryRowContext(ctx, `SELECT get_lock(?, 0)`, s.name).Scan(&taken)
	if err == nil && !taken.Valid {
		err = errors.New("the server could not say whether it is free")
	}
	return taken.Int64 == 1, my.Describe("leader lock", fmt.Sprintf("take GET_LOCK(%q)", s.name), err)
}

// Watch implements [leaderlock.Session].
func (s *leaderSession) Watch(ctx context.Context) {
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
		err := s.conn.QueryRowContext(asking, `SELECT is_used_lock(?) = connection_id()`, s.name).Scan(&ours)
		cancel()
		if err != nil || !ours.Bool {
			return
		}
	}
}

// Close implements [leaderlock.Session].
func (s *leaderSession) Close() { release(s.conn, "?", s.name) }
