package pg

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider/adapters"
)

// A COMMIT may be answered late, and is not given up with the work before it: what it came to would
// not be known. If its answer got lost, the look for what it came to may take as long.
const (
	commitTimeout = 10 * time.Second
	lookPause     = 100 * time.Millisecond
)

// Deliveries are connections for transactions that deliver, beside those of a pool: work that cannot wait has the
// pool. The zero value has none yet.
type Deliveries struct {
	mu   sync.Mutex
	pool *pgxpool.Pool
}

// deliveryConns bounds them: one for each lane that delivers at a time.
const deliveryConns = 8

// Beside returns the connections, made as those of a pool are.
func (d *Deliveries) Beside(ctx context.Context, beside *pgxpool.Pool) (*pgxpool.Pool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pool == nil {
		cfg := beside.Config()
		cfg.MaxConns = deliveryConns
		pool, err := pgxpool.NewWithConfig(context.WithoutCancel(ctx), cfg)
		if err != nil {
			return nil, fmt.Errorf("open connections for deliveries: %w", err)
		}
		d.pool = pool
	}
	return d.pool, nil
}

// Close closes them.
func (d *Deliveries) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pool != nil {
		d.pool.Close()
	}
}

// Database names the database that a configuration leads to.
func Database(c *pgx.ConnConfig) string {
	return adapters.DatabaseName(c.Host, c.Port, c.Database)
}

// Transact runs work in a transaction and commits it. An error of work rolls back, and is returned as it is. When a
// COMMIT fails in a way that does not say what it came to, committed finds it out: it
// waits for a lock that the transaction has, and then looks for what it wrote. If it cannot find out in time the
// error is [adapters.ErrUnknown].
func Transact(ctx context.Context, pool *pgxpool.Pool, work func(ctx context.Context, tx pgx.Tx) error, committed func(ctx context.Context) (bool, error)) error {
	tx, err := pool.Begin(ctx)
	if err != nil {
		return err
	}
	rollback := func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
		defer cancel()
		_ = tx.Rollback(ending) // or the server does it, when it notices that the connection is closed
	}
	finished := false
	defer func() {
		if !finished { // also after a panic
			rollback()
		}
	}()
	if err := work(ctx, tx); err != nil {
		return err
	}
	finished = true
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel()
	err = tx.Commit(ending)
	if err == nil || rolledBack(err) {
		return err
	}
	looking, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel()
	for {
		done, lookErr := committed(looking)
		if lookErr == nil && done {
			return nil
		}
		if lookErr == nil {
			return err
		}
		select {
		case <-time.After(lookPause):
		case <-looking.Done():
			return fmt.Errorf("%w: %w; looking for it: %w", adapters.ErrUnknown, err, lookErr)
		}
	}
}

// rolledBack reports whether the error of a COMMIT says that nothing was committed. A connection that
// ends (class 08, which poolers answer with too), a server that stops (57P) and 40003 leave it open.
func rolledBack(err error) bool {
	if errors.Is(err, pgx.ErrTxCommitRollback) {
		return true
	}
	refused, ok := errors.AsType[*pgconn.PgError](err)
	return ok && refused.Code != "40003" && !strings.HasPrefix(refused.Code, "08") && !strings.HasPrefix(refused.Code, "57P")
}
