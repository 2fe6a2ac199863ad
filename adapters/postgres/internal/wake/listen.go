package wake

import (
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
	"github.com/outriderhq/outrider/outbox"
)

const (
	// listenSettings let the server find out within a minute that we have gone
	// without a word, and end the session: its locks make writers call.
	listenSettings = "SET tcp_keepalives_idle = 30; SET tcp_keepalives_interval = 10; SET tcp_keepalives_count = 3; LISTEN " + outbox.WakeChannel

	// sleepSQL takes the locks of the tables $1, and returns for each: 0, acquired;
	// 1, the session of another reader has it, so that writers call already; 2,
	// writers who did not call have not ended.
	sleepSQL = `SELECT CASE WHEN pg_try_advisory_lock(k.key) THEN 0
    WHEN NOT pg_try_advisory_lock_shared(k.key) THEN 1
    WHEN pg_advisory_unlock_shared(k.key) THEN 2 END
FROM pg_catalog.unnest($1::text[]) AS t(name), LATERAL (SELECT hashtextextended(t.name, $2) AS key OFFSET 0) k`

	// unlockSQL gives them back. No lock of another kind is in this session.
	unlockSQL = "SELECT pg_advisory_unlock_all()"

	// callSQL wakes the other readers of the tables $1.
	callSQL = "SELECT pg_notify('" + outbox.WakeChannel + "', t.name) FROM pg_catalog.unnest($1::text[]) AS t(name)"
)

// listener is one connection that listens.
type listener struct {
	*Waker
	conn    *pgx.Conn
	armed   bool
	own     bool // by a lock of our own, for one table at least
	foreign bool // by the lock of another reader, for one table at least
}

// connect makes a connection that listens.
func (w *Waker) connect(ctx context.Context) (*listener, error) {
	ctx, cancel := context.WithTimeout(ctx, wakePatience)
	defer cancel()
	c, err := w.pool.Acquire(ctx)
	if err != nil {
		return nil, pg.Plainly(err)
	}
	l := &listener{Waker: w, conn: c.Hijack()}
	if err = pg.KeepsSession(l.conn); err == nil {
		_, err = l.conn.PgConn().Exec(ctx, listenSettings).ReadAll()
	}
	if err != nil {
		pg.Close(l.conn)
		return nil, err
	}
	return l, nil
}

// run listens until ctx ends or the connection breaks.
func (l *listener) run(ctx context.Context) error {
	defer pg.Close(l.conn)
	defer l.call() // no more notifications come
	l.ready.Store(true)
	defer l.ready.Store(false)
	l.call() // it may have gone to sleep for long when there was no connection
	for {
		n, a, err := l.wait(ctx)
		switch {
		case a != nil && a.answer != nil:
			err = errors.Join(err, l.sleep(ctx, a.answer))
		case a != nil && err == nil && l.armed:
			err = l.disarm(ctx, true)
		}
		switch {
		case err != nil:
			return err
		case n != nil && n.PID != l.conn.PgConn().PID() && slices.Contains(l.tables, n.Payload):
			l.call()
			if l.armed {
				err = l.disarm(ctx, false) // other readers have heard it too
			}
		case n == nil && a == nil: // time is up
			err = l.renew(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// wait returns the next notification or what the reader asks, or neither when the
// lock of another reader has been relied on for long enough.
func (l *listener) wait(ctx context.Context) (*pgconn.Notification, *ask, error) {
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	if l.armed && l.foreign {
		waiting, cancel = context.WithTimeout(waiting, l.Relied)
		defer cancel()
	}
	asked := make(chan *ask, 1)
	go func() {
		select {
		case a := <-l.asks:
			cancel()
			asked <- &a
		case <-waiting.Done():
			asked <- nil
		}
	}()
	n, err := l.conn.WaitForNotification(waiting)
	interrupted := waiting.Err() != nil && !l.conn.IsClosed()
	cancel()
	a := <-asked
	switch {
	case ctx.Err() != nil:
		return n, a, ctx.Err()
	case interrupted:
		return n, a, nil
	}
	return n, a, err
}

// sleep takes the locks and answers the reader.
func (l *listener) sleep(ctx context.Context, answer chan<- adapters.Sleep) error {
	if l.conn.IsClosed() {
		answer <- adapters.Unsupported
		return nil // the reason is known
	}
	got, err := l.lock(ctx)
	answer <- got
	return err
}

// lock takes the locks of all tables, or none.
func (l *listener) lock(ctx context.Context) (adapters.Sleep, error) {
	ctx, cancel := context.WithTimeout(ctx, wakePatience)
	defer cancel()
	rows, _ := l.conn.Query(ctx, sleepSQL, l.tables, outbox.WakeNamespace) // its error is CollectRows' too
	states, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil {
		return adapters.Unsupported, err
	}
	if slices.Contains(states, 2) {
		_, err := l.conn.Exec(ctx, unlockSQL)
		return adapters.Draining, err
	}
	l.armed, l.own, l.foreign = true, slices.Contains(states, 0), slices.Contains(states, 1)
	return adapters.Armed, nil
}

// disarm releases the locks. Readers that rely on them are notified, unless they know.
func (l *listener) disarm(ctx context.Context, tell bool) error {
	l.armed = false
	if !l.own {
		return nil
	}
	l.own = false
	ctx, cancel := context.WithTimeout(ctx, wakePatience)
	defer cancel()
	if _, err := l.conn.Exec(ctx, unlockSQL); err != nil {
		return err
	}
	if !tell {
		return nil
	}
	_, err := l.conn.Exec(ctx, callSQL, l.tables)
	return err
}

// renew looks whether the lock of another reader is still there. If it is not,
// no call has come since it went: the reader looks.
func (l *listener) renew(ctx context.Context) error {
	alone := !l.own
	if err := l.disarm(ctx, true); err != nil {
		return err
	}
	got, err := l.lock(ctx)
	if err != nil || alone && got == adapters.Armed && !l.own {
		return err
	}
	l.call()
	return l.disarm(ctx, false)
}
