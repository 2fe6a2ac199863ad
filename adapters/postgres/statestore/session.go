package statestore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

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

	// endLockSQL ends sessions that have to do with the lock of instance $1. The 64 bits of an advisory key are
	// shown as two columns of 32.
	endLockSQL = `
SELECT pg_terminate_backend(l.pid)
FROM pg_locks l, (SELECT ` + instanceLock + ` AS key) k
WHERE l.locktype = 'advisory' AND l.objsubid = 1
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND l.classid::bigint = (k.key >> 32) & 4294967295 AND l.objid::bigint = k.key & 4294967295`

	// endFormerSQL ends those of the processes $2, endHolderSQL the one that holds it: those who look share it.
	endFormerSQL = endLockSQL + ` AND l.pid = ANY($2::int4[])`
	endHolderSQL = endLockSQL + ` AND l.granted AND l.mode = 'ExclusiveLock'`

	// sweepSQL forgets instances that ended without leaving. An owner without
	// a row counts as dead, so nothing depends on when this happens.
	sweepSQL = `DELETE FROM outrider_instance WHERE lease_until < clock_timestamp() - interval '1 day'`
)

// formerSessions bounds how many abandoned sessions are remembered.
const formerSessions = 64

// stateSession is the connection that shows the others that we live.
type stateSession struct {
	instance string
	conn     *pgx.Conn
	owned    *ownedLanes
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
		_, err := s.openSession(ctx, instance, lease)
		return err
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
	lost := s.session.conn
	if !lost.IsClosed() || ctx.Err() != nil {
		return nil, stateError(fmt.Sprintf("renew the lease of %q", instance), err)
	}
	s.remember(lost)
	if lanes, err = s.openSession(ctx, instance, lease); err != nil {
		return nil, err // the caller tries again, and says so
	}
	s.log.WarnContext(ctx, "the connection that holds the instance's lock was lost; a new one holds it", "instance", instance)
	return lanes, nil
}

func (s *Store) renew(ctx context.Context, lease time.Duration) (map[adapters.LaneRef]adapters.LaneMark, error) {
	rows, err := s.session.conn.Query(ctx, s.pool.schema.in(renewSQL), s.session.instance, lease.Seconds())
	if err != nil {
		return nil, err
	}
	return s.session.owned.read(rows)
}

// Leave releases the instance's lanes, deletes its row and drops the lock, in
// this order: an instance that sees the lock free finds the lanes released.
func (s *Store) Leave(ctx context.Context, instance string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.joined(instance); err != nil {
		return err
	}
	err := s.Operators.Leave(ctx, instance)
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

// openSession connects, takes the instance's lock and renews its lease. Each
// former session whose loss the server has not noticed yet (a broken network) would hold the
// lock for hours, also one that we gave up before it had answered; it is ended, by the
// process id that it had, if it holds the lock.
//
// A distant or troubled server takes long for each answer, and all of this has to be done
// well within the lease: so what follows the connection is one round trip.
func (s *Store) openSession(ctx context.Context, instance string, lease time.Duration) (map[adapters.LaneRef]adapters.LaneMark, error) {
	conn, err := pg.ConnectBeside(ctx, s.pool.Pool, func(cfg *pgx.ConnConfig) {
		cfg.DefaultQueryExecMode = pgx.QueryExecModeExec // to prepare a statement takes a round trip more
	})
	if err != nil {
		return nil, stateError(fmt.Sprintf("connect for the lock of instance %q", instance), err)
	}
	owned := newOwnedLanes()
	lanes, err := s.lockInstance(ctx, conn, instance, lease, owned)
	if err != nil {
		s.remember(conn)
		closeBriefly(conn)
		return nil, err
	}
	s.session, s.former = &stateSession{instance: instance, conn: conn, owned: owned}, nil
	return lanes, nil
}

// remember notes a session whose end the server may not know of.
func (s *Store) remember(conn *pgx.Conn) {
	if pid := int32(conn.PgConn().PID()); !slices.Contains(s.former, pid) {
		s.former = append(s.former, pid)
		s.former = s.former[max(0, len(s.former)-formerSessions):]
	}
}

func (s *Store) lockInstance(ctx context.Context, conn *pgx.Conn, instance string, lease time.Duration, owned *ownedLanes) (lanes map[adapters.LaneRef]adapters.LaneMark, err error) {
	locked := false
	var b pgx.Batch
	// Changes of others while we waited for the lock must be visible.
	b.Queue(`BEGIN ISOLATION LEVEL READ COMMITTED`)
	b.Queue(`SELECT set_config('lock_timeout', $1, false), set_config('application_name', 'outrider-lease', false)`, instanceLockWait)
	if len(s.former) > 0 {
		b.Queue(s.pool.schema.in(endFormerSQL), instance, s.former)
	}
	b.Queue(s.pool.schema.in(`SELECT pg_advisory_lock(`+instanceLock+`)`), instance).Exec(func(pgconn.CommandTag) error {
		locked = true
		return nil
	})
	b.Queue(s.pool.schema.in(renewSQL), instance, lease.Seconds()).Query(func(rows pgx.Rows) (err error) {
		lanes, err = owned.read(rows)
		return err
	})
	b.Queue(`COMMIT`)
	err = conn.SendBatch(ctx, &b).Close()
	switch {
	case err == nil:
		return lanes, nil
	case !locked && pg.FailedWith(err, pg.LockNotAvailable):
		return nil, fmt.Errorf("state store: a living process has joined as instance %q; give every instance an id of its own", instance)
	case !locked:
		return nil, stateError(fmt.Sprintf("take the lock of instance %q", instance), err)
	}
	return nil, stateError(fmt.Sprintf("join as %q", instance), err)
}

// endSession ends the session that shows that an instance lives.
func (s *Store) endSession(ctx context.Context, instance string) error {
	_, err := s.pool.Exec(ctx, s.pool.schema.in(endHolderSQL), instance)
	if pg.FailedWith(err, pg.InsufficientPrivilege) {
		return fmt.Errorf("end its session: %w; GRANT pg_signal_backend TO the role that Outrider connects as", err)
	}
	return err
}

// closeSession ends the session and with it the lock.
func (s *Store) closeSession() {
	if s.session == nil {
		return
	}
	closeBriefly(s.session.conn) // the server releases the lock either way
	s.session = nil
}

// closeBriefly closes a connection. It is bounded: a server that does not answer must
// not delay us.
func closeBriefly(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Close(ctx) // what depends on its end is the server's to notice
}
