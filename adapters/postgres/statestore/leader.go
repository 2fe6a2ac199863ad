package statestore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider/adapters/internal/leaderlock"
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
// database by pg_advisory_lock or pg_try_advisory_lock waits for us, and we for it.
type LeaderLock = leaderlock.Lock

// NewLeaderLock checks the configuration. It does not connect:
// [LeaderLock.TryLock] does.
func NewLeaderLock(ctx context.Context, cfg LeaderConfig) (*LeaderLock, error) {
	c := pg.Connection{URL: cfg.URL, TLS: cfg.TLS, Config: cfg.Config, Application: "outrider-leader", MaxConns: 1}
	pool, err := c.Open(ctx)
	if err != nil {
		return nil, fmt.Errorf("leader lock %d: %w", cfg.Key, err)
	}
	name := fmt.Sprintf("advisory lock %d", cfg.Key)
	return leaderlock.New(name, func(ctx context.Context) (leaderlock.Session, error) {
		pooled, err := pool.Acquire(ctx)
		if err != nil {
			return nil, fmt.Errorf("leader lock: connect for %s: %w", name, pg.Plainly(err))
		}
		conn := pooled.Hijack() // out of the pool, so that the pool's hooks apply to it
		if err := pg.KeepsSession(conn); err != nil {
			closeBriefly(conn)
			return nil, fmt.Errorf("leader lock: connect for %s: %w", name, err)
		}
		return &leaderSession{conn, cfg.Key}, nil
	}, pool.Close), nil
}

// leaderSession is a connection that may hold the lock.
type leaderSession struct {
	conn *pgx.Conn
	key  int64
}

// Take implements [leaderlock.Session].
func (s *leaderSession) Take(ctx context.Context) (taken bool, err error) {
	if err = s.conn.QueryRow(ctx, `SELECT pg_try_advisory_lock($1)`, s.key).Scan(&taken); err != nil {
		return false, fmt.Errorf("leader lock: take advisory lock %d: %w", s.key, err)
	}
	return taken, nil
}

// Watch implements [leaderlock.Session].
func (s *leaderSession) Watch(ctx context.Context) {
	for ctx.Err() == nil {
		// Nothing is listened to: this returns when the connection breaks, or
		// after a while.
		waiting, cancel := context.WithTimeout(ctx, leaderPing)
		_, err := s.conn.WaitForNotification(waiting)
		cancel()
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return
		}
		asking, cancel := context.WithTimeout(ctx, leaderPing)
		err = s.conn.Ping(asking)
		cancel()
		if err != nil {
			return
		}
	}
}

// Close implements [leaderlock.Session]. The server releases the lock either way.
func (s *leaderSession) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = s.conn.Close(ctx)
}
