package statestore

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/state"
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
	endFormerSQL = endLockSQL + ` AND l.pid = ANY($2::bigint[])`
	endHolderSQL = endLockSQL + ` AND l.granted AND l.mode = 'ExclusiveLock'`
)

// aliveInstance reports whether the instance of a row i lives: its lease is
// running, and its advisory lock is not free. The query for the lock is
// shared, so that two who ask at once do not take each other for its holder.
const aliveInstance = `(i.lease_until > clock_timestamp() AND NOT pg_try_advisory_xact_lock_shared(` + instanceKey + `i.id` + keyEnd + `))`

// session is the connection that shows other instances that this one lives. It implements [state.Session].
type session struct {
	instance string
	conn     *pgx.Conn
	schema   *stateSchema
	aside    *aside
	owned    *ownedLanes
}

// queueRenewal adds a renewal to a batch, whose end leaves the lanes in owned.
func (s *session) queueRenewal(batch *pgx.Batch, lease time.Duration) {
	sql := renewSQL
	if s.aside.used.Load() {
		sql = renewAsideSQL
		batch.Queue(byIndex)
	}
	batch.Queue(s.schema.in(sql), s.instance, lease.Seconds()).Query(s.owned.read)
}

// Renew implements [state.Session].
func (s *session) Renew(ctx context.Context, lease time.Duration) (map[adapters.LaneRef]adapters.LaneMark, error) {
	batch := &pgx.Batch{}
	s.queueRenewal(batch, lease)
	if err := s.conn.SendBatch(ctx, batch).Close(); err != nil {
		return nil, err
	}
	return s.owned.lanes, nil
}

// Lost implements [state.Session].
func (s *session) Lost(error) bool { return s.conn.IsClosed() }

// ID implements [state.Session]: the process that serves the connection.
func (s *session) ID() int64 { return int64(s.conn.PgConn().PID()) }

// Close implements [state.Session]. The server releases the lock with the connection.
func (s *session) Close(bool) { closeBriefly(s.conn) }

// sweep forgets instances that ended without leaving. An owner without
// a row counts as dead, so nothing depends on when this happens.
func (s *Store) sweep(ctx context.Context) error {
	_, err := s.pool.Exec(ctx, `DELETE FROM outrider_instance WHERE lease_until < clock_timestamp() - interval '1 day'`)
	return err
}

// openSession connects, takes the instance's lock and renews its lease.
//
// A distant or troubled server takes long for each answer, and all of this has to be done
// well within the lease: so what follows the connection is one round trip.
func (s *Store) openSession(ctx context.Context, instance string, lease time.Duration, former []int64) (state.Session, map[adapters.LaneRef]adapters.LaneMark, error) {
	conn, err := pg.ConnectBeside(ctx, s.pool.Pool, func(cfg *pgx.ConnConfig) {
		cfg.DefaultQueryExecMode = pgx.QueryExecModeExec // to prepare a statement takes a round trip more
	})
	if err != nil {
		return nil, nil, stateError(fmt.Sprintf("connect for the lock of instance %q", instance), err)
	}
	if err := pg.KeepsSession(conn); err != nil {
		closeBriefly(conn)
		return nil, nil, stateError(fmt.Sprintf("connect for the lock of instance %q", instance), err)
	}
	own := &session{instance, conn, s.pool.schema, &s.aside, newOwnedLanes()}
	lanes, err := own.lock(ctx, lease, former)
	return own, lanes, err
}

// lock takes the lock.
func (s *session) lock(ctx context.Context, lease time.Duration, former []int64) (map[adapters.LaneRef]adapters.LaneMark, error) {
	locked := false
	var b pgx.Batch
	// Changes of others while we waited for the lock must be visible.
	b.Queue(`BEGIN ISOLATION LEVEL READ COMMITTED`)
	b.Queue(`SELECT set_config('lock_timeout', $1, false), set_config('application_name', 'outrider-lease', false)`, instanceLockWait)
	if len(former) > 0 {
		b.Queue(s.schema.in(endFormerSQL), s.instance, former)
	}
	b.Queue(s.schema.in(`SELECT pg_advisory_lock(`+instanceLock+`)`), s.instance).Exec(func(pgconn.CommandTag) error {
		locked = true
		return nil
	})
	s.queueRenewal(&b, lease)
	b.Queue(`COMMIT`)
	err := s.conn.SendBatch(ctx, &b).Close()
	switch {
	case err == nil:
		return s.owned.lanes, nil
	case !locked && pg.FailedWith(err, pg.LockNotAvailable):
		return nil, fmt.Errorf("state store: a living process has joined as instance %q; give every instance an id of its own", s.instance)
	case !locked:
		return nil, stateError(fmt.Sprintf("take the lock of instance %q", s.instance), err)
	}
	return nil, stateError(fmt.Sprintf("join as %q", s.instance), err)
}

// endSession ends the session that shows that an instance lives.
func (s *Store) endSession(ctx context.Context, instance string) error {
	_, err := s.pool.Exec(ctx, s.pool.schema.in(endHolderSQL), instance)
	if pg.FailedWith(err, pg.InsufficientPrivilege) {
		return fmt.Errorf("end its session: %w; GRANT pg_signal_backend TO the role that Outrider connects as", err)
	}
	return err
}

// closeBriefly closes a connection. It is bounded: a server that does not answer must
// not delay us.
func closeBriefly(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Close(ctx) // what depends on its end is the server's to notice
}
