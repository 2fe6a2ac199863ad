package statestore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
)

const (
	// instanceKey, an id and keyEnd make the key of an instance's advisory
	// lock. The schema is part of it: two Outriders may share a database. The
	// seed keeps our keys apart from those of others.
	instanceKey = `hashtextextended('outrider instance ' || {schema} || ' ' || `
	keyEnd      = `, 7710263)`

	// instanceLock is the key of the instance whose id is $1.
	instanceLock = instanceKey + `$1::text` + keyEnd

	// instanceLockWait is how long a session waits for its lock, in
	// milliseconds: others hold it for the moment of a look, a living namesake
	// for good.
	instanceLockWait = "2000"

	renewSQL = `
WITH lease AS (
    INSERT INTO outrider_instance (id, lease_until) VALUES ($1, clock_timestamp() + make_interval(secs => $2))
    ON CONFLICT (id) DO UPDATE SET lease_until = EXCLUDED.lease_until, renewed_at = clock_timestamp()
)
SELECT route, slot, epoch, revision, commands FROM outrider_cursor WHERE owner = $1`

	// endFormerSQL ends the process $2 if it holds the lock of instance $1. The 64
	// bits of an advisory key are shown as two columns of 32.
	endFormerSQL = `
SELECT pg_terminate_backend(l.pid)
FROM pg_locks l, (SELECT ` + instanceLock + ` AS key) k
WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND l.pid = $2
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND l.classid::bigint = (k.key >> 32) & 4294967295 AND l.objid::bigint = k.key & 4294967295`

	// sweepSQL forgets instances that ended without leaving. An owner without
	// a row counts as dead, so nothing depends on when this happens.
	sweepSQL = `DELETE FROM outrider_instance WHERE lease_until < clock_timestamp() - interval '1 day'`
)

// stateSession is the connection that shows the others that we live.
type stateSession struct {
	instance string
	conn     *pgx.Conn
}

// Join announces the instance: a row with its lease and, on a connection of
// its own, the advisory lock that others look at. A second Join of the same
// instance renews; a Store serves one instance.
func (s *Store) Join(ctx context.Context, instance string, lease time.Duration) error {
	if instance == "" || lease <= 0 {
		return errors.New("state store: join: an instance needs an id and a lease longer than 0")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.session != nil && s.session.instance != instance {
		return fmt.Errorf("state store: join: this store serves instance %q already; open another for %q", s.session.instance, instance)
	}
	swept := make(chan error, 1)
	go func() { // on another connection, which is wanted soon and takes its time
		_, err := s.pool.Exec(ctx, sweepSQL)
		swept <- err
	}()
	joined := s.join(ctx, instance, lease)
	if err := <-swept; err != nil && joined == nil {
		return stateError("sweep dead instances", err)
	}
	return joined
}

func (s *Store) join(ctx context.Context, instance string, lease time.Duration) error {
	if s.session == nil {
		conn, err := s.openSession(ctx, instance, 0)
		if err != nil {
			return err
		}
		s.session = &stateSession{instance: instance, conn: conn}
	}
	if _, err := s.renew(ctx, lease); err != nil {
		return stateError(fmt.Sprintf("join as %q", instance), err)
	}
	return nil
}

// Renew extends the lease, on the very connection that holds the lock, so that
// its loss is noticed. A lost connection is replaced and the lock taken again;
// the lanes that others took meanwhile are not in the answer.
func (s *Store) Renew(ctx context.Context, instance string, lease time.Duration) (map[adapters.LaneRef]adapters.LaneMark, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.joined(instance); err != nil {
		return nil, err
	}
	lanes, err := s.renew(ctx, lease)
	if err == nil {
		return lanes, nil
	}
	if !s.session.conn.IsClosed() || ctx.Err() != nil {
		return nil, stateError(fmt.Sprintf("renew the lease of %q", instance), err)
	}
	s.log.WarnContext(ctx, "lost the connection that holds the instance's lock; connecting again",
		"instance", instance, "error", err)
	conn, err := s.openSession(ctx, instance, s.session.conn.PgConn().PID())
	if err != nil {
		return nil, err
	}
	s.session.conn = conn
	if lanes, err = s.renew(ctx, lease); err != nil {
		return nil, stateError(fmt.Sprintf("renew the lease of %q", instance), err)
	}
	return lanes, nil
}

func (s *Store) renew(ctx context.Context, lease time.Duration) (map[adapters.LaneRef]adapters.LaneMark, error) {
	rows, err := s.session.conn.Query(ctx, s.pool.schema.in(renewSQL), s.session.instance, lease.Seconds())
	if err != nil {
		return nil, err
	}
	lanes := make(map[adapters.LaneRef]adapters.LaneMark, adapters.Slots)
	var ref adapters.LaneRef
	var mark adapters.LaneMark
	_, err = pgx.ForEachRow(rows, []any{&ref.Route, &ref.Slot, &mark.Epoch, &mark.Revision, &mark.Commands}, func() error {
		lanes[ref] = mark
		return nil
	})
	return lanes, err
}

// Leave releases the instance's lanes, deletes its row and drops the lock, in
// this order: whoever sees the lock free finds the lanes released.
func (s *Store) Leave(ctx context.Context, instance string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.joined(instance); err != nil {
		return err
	}
	err := pg.RetryDeadlock(func() error {
		return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, `UPDATE outrider_cursor SET owner = NULL WHERE owner = $1`, instance); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, `DELETE FROM outrider_instance WHERE id = $1`, instance)
			return err
		})
	})
	s.closeSession()
	return stateError(fmt.Sprintf("leave as %q (others take its lanes as after a crash)", instance), err)
}

// joined reports whether the instance is the one that this store serves.
func (s *Store) joined(instance string) error {
	if s.session == nil || s.session.instance != instance {
		return fmt.Errorf("state store: instance %q has not joined; call Join first", instance)
	}
	return nil
}

// openSession connects and takes the instance's lock. A former session of ours
// that the server has not missed yet (a broken network) would hold it for
// hours; it is ended, by the process id that it had, if it still holds it.
func (s *Store) openSession(ctx context.Context, instance string, formerPID uint32) (*pgx.Conn, error) {
	// Taken out of the pool, so that the pool's hooks apply to it.
	pooled, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, stateError(fmt.Sprintf("connect for the lock of instance %q", instance), err)
	}
	conn := pooled.Hijack()
	if err := s.lockInstance(ctx, conn, instance, formerPID); err != nil {
		_ = conn.Close(context.WithoutCancel(ctx)) // the lock is what failed; that is told
		return nil, err
	}
	return conn, nil
}

func (s *Store) lockInstance(ctx context.Context, conn *pgx.Conn, instance string, formerPID uint32) error {
	_, err := conn.Exec(ctx, `SELECT set_config('lock_timeout', $1, false), set_config('application_name', 'outrider-lease', false)`,
		instanceLockWait)
	if err != nil {
		return stateError(fmt.Sprintf("prepare the session of instance %q", instance), err)
	}
	if formerPID != 0 {
		_, err := conn.Exec(ctx, s.pool.schema.in(endFormerSQL), instance, int32(formerPID))
		if err != nil {
			return stateError(fmt.Sprintf("end the former session of instance %q", instance), err)
		}
	}
	_, err = conn.Exec(ctx, s.pool.schema.in(`SELECT pg_advisory_lock(`+instanceLock+`)`), instance)
	if pg.FailedWith(err, pg.LockNotAvailable) {
		return fmt.Errorf("state store: a living process has joined as instance %q; give every instance an id of its own", instance)
	}
	return stateError(fmt.Sprintf("take the lock of instance %q", instance), err)
}

// closeSession ends the session and with it the lock.
func (s *Store) closeSession() {
	if s.session == nil {
		return
	}
	// Bounded: a server that does not answer must not delay our end.
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = s.session.conn.Close(ctx) // the server releases the lock either way
	s.session = nil
}
