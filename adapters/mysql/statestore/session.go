package statestore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/sqltext"
	"github.com/outriderhq/outrider/adapters/internal/state"
	"github.com/outriderhq/outrider/adapters/mysql/internal/my"
)

const (
	// now is the server's clock in microseconds since 1970, whatever the session's time zone is.
	now = `timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))`

	// instanceLock names the lock of the instance {id}. Names are those of a whole server, have at most 64
	// characters and no case, and are never NULL: MySQL ends the statement then, and MariaDB does not. MySQL 9.6 has md5 and sha1 no more.
	instanceLock = `concat('outrider-', left(sha2(concat(database(), '/', coalesce({id}, '')), 256), 40))`

	// thisServer identifies the server of a cluster, on which locks are not shared, and one that was put in
	// the place of another.
	thisServer = `concat_ws('/', @@hostname, @@port, @@server_id)`

	// instanceLockWait is for how many seconds a session waits for its lock, which a living namesake holds for good.
	instanceLockWait = "2"

	renewSQL = `INSERT INTO outrider_instance (id, lease_until, joined_at, renewed_at, server, routes)
VALUES (?, ` + now + ` + ?, ` + now + `, ` + now + `, ` + thisServer + `, '[]')
ON DUPLICATE KEY UPDATE lease_until = VALUES(lease_until), renewed_at = VALUES(renewed_at), server = VALUES(server)`
)

// lockOf names the lock of an instance whose id is an expression.
func lockOf(id string) string { return sqltext.Fill(instanceLock, sqltext.Names{"id": id}) }

// aliveInstance reports whether the instance of a row i lives: its lease is
// running, and its lock is held, as far as this server can know.
var aliveInstance = `(i.lease_until > ` + now + ` AND (i.server <> ` + thisServer + ` OR is_used_lock(` + lockOf("i.id") + `) IS NOT NULL))`

// errNamesake is the error for an id that a living process has.
var errNamesake = errors.New("a living process has joined as this instance")

// session is the connection that shows other instances that this one lives. It implements [state.Session].
type session struct {
	instance string
	conn     *sql.Conn
	id       int64 // of the connection, on the server
}

// Renew implements [state.Session].
func (s *session) Renew(ctx context.Context, lease time.Duration) (map[adapters.LaneRef]adapters.LaneMark, error) {
	err := my.RetryConflict(ctx, func() error {
		_, err := s.conn.ExecContext(ctx, renewSQL, s.instance, lease.Microseconds())
		return err
	})
	if err != nil {
		return nil, err
	}
	return state.OwnedLanes(ctx, s.conn, s.instance)
}

// connectionKilled is MariaDB's last word on a connection that was ended by KILL.
const connectionKilled = 1927

// Lost implements [state.Session].
func (s *session) Lost(err error) bool {
	return !my.Answered(err) || my.FailedWith(err, connectionKilled)
}

// ID implements [state.Session].
func (s *session) ID() int64 { return s.id }

// Close implements [state.Session].
func (s *session) Close(lost bool) {
	if lost {
		discard(s.conn)
		return
	}
	release(s.conn, lockOf("?"), s.instance)
}

// sweep forgets instances that ended without leaving. An owner without
// a row counts as dead, so nothing depends on when this happens.
func (s *Store) sweep(ctx context.Context) error {
	return my.RetryConflict(ctx, func() error {
		_, err := s.db.ExecContext(ctx, `DELETE FROM outrider_instance WHERE lease_until < `+now+` - 86400000000`)
		return err
	})
}

// openSession connects, takes the instance's lock and renews its lease.
func (s *Store) openSession(ctx context.Context, instance string, lease time.Duration, former []int64) (state.Session, map[adapters.LaneRef]adapters.LaneMark, error) {
	conn, err := s.leases.Conn(ctx)
	if err != nil {
		return nil, nil, stateError(fmt.Sprintf("connect for the lock of instance %q", instance), err)
	}
	own := &session{instance: instance, conn: conn}
	lanes, err := own.lock(ctx, lease, former)
	if errors.Is(err, errNamesake) {
		return own, nil, fmt.Errorf("state store: a living process has joined as instance %q; give every instance an id of its own", instance)
	}
	return own, lanes, stateError(fmt.Sprintf("join as %q", instance), err)
}

// lock takes the lock.
func (s *session) lock(ctx context.Context, lease time.Duration, former []int64) (map[adapters.LaneRef]adapters.LaneMark, error) {
	name := lockOf("?")
	var holder, got sql.NullInt64
	if err := s.conn.QueryRowContext(ctx, `SELECT connection_id(), is_used_lock(`+name+`)`, s.instance).Scan(&s.id, &holder); err != nil {
		return nil, err
	}
	if slices.Contains(former, holder.Int64) {
		_, _ = s.conn.ExecContext(ctx, `KILL `+strconv.FormatInt(holder.Int64, 10)) // it may be gone by now; the lock decides
	}
	if err := s.conn.QueryRowContext(ctx, `SELECT get_lock(`+name+`, `+instanceLockWait+`)`, s.instance).Scan(&got); err != nil {
		return nil, err
	}
	if got.Int64 != 1 {
		return nil, errNamesake
	}
	return s.Renew(ctx, lease)
}

// endSession ends the session that shows that an instance lives.
func (s *Store) endSession(ctx context.Context, instance string) error {
	var holder sql.NullInt64
	if err := s.db.QueryRowContext(ctx, `SELECT is_used_lock(`+lockOf("?")+`)`, instance).Scan(&holder); err != nil || !holder.Valid {
		return err
	}
	_, err := s.db.ExecContext(ctx, `KILL `+strconv.FormatInt(holder.Int64, 10))
	switch {
	case my.FailedWith(err, noSuchConnection):
		return nil
	case my.FailedWith(err, notTheOwner):
		return fmt.Errorf("end its session: %w; GRANT CONNECTION ADMIN ON *.* TO the user that Outrider connects as (MySQL: CONNECTION_ADMIN)", err)
	}
	return err
}

// What a server answers to KILL.
const (
	noSuchConnection = 1094
	notTheOwner      = 1095
)

// release frees a lock and closes its connection. The server frees it with the connection as well, when it notices; it
// is bounded, because a server that does not answer must not delay us.
func release(conn *sql.Conn, lock string, args ...any) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, _ = conn.ExecContext(ctx, `DO release_lock(`+lock+`)`, args...)
	discard(conn)
}

// discard closes a connection, whatever state it is in.
func discard(conn *sql.Conn) {
	_ = conn.Raw(func(any) error { return driver.ErrBadConn })
	_ = conn.Close() // it is closed by now
}
