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
	"github.com/outriderhq/outrider/adapters/internal/state"
	"github.com/outriderhq/outrider/adapters/mysql/internal/my"
)

const (
	// now is the server's clock in microseconds since 1970, whatever the session's time zone is.
	now = `timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))`

	// instanceLock names the lock of the instance whose id stands where the % is. Names are those of a whole server, have at most 64
	// characters and no case, and are never NULL: MySQL ends the statement then, and MariaDB does not. MySQL 9.6 has md5 and sha1 no more.
	instanceLock = `concat('outrider-', left(sha2(concat(database(), '/', coalesce(%, '')), 256), 40))`

	// thisServer identifies the server of a cluster, on which locks are not shared, and one that was put in
	// the place of another.
	thisServer = `concat_ws('/', @@hostname, @@port, @@server_id)`

	// instanceLockWait is for how many seconds a session waits for its lock, which a living namesake holds for good.
	instanceLockWait = "2"

	renewSQL = `INSERT INTO outrider_instance (id, lease_until, joined_at, renewed_at, server, routes)
VALUES (?, ` + now + ` + ?, ` + now + `, ` + now + `, ` + thisServer + `, '[]')
ON DUPLICATE KEY UPDATE lease_until = VALUES(lease_until), renewed_at = VALUES(renewed_at), server = VALUES(server)`

	ownedSQL = `SELECT route, slot, epoch, revision, commands FROM outrider_cursor WHERE owner = ?`

	// sweepSQL forgets instances that ended without leaving. An owner without
	// a row counts as dead, so nothing depends on when this happens.
	sweepSQL = `DELETE FROM outrider_instance WHERE lease_until < ` + now + ` - 86400000000`
)

// formerSessions bounds how many abandoned sessions are remembered.
const formerSessions = 64

// errNamesake is the error for an id that a living process has.
var errNamesake = errors.New("a living process has joined as this instance")

// stateSession is the connection that shows the others that we live.
type stateSession struct {
	instance string
	conn     *sql.Conn
	id       int64 // of the connection, on the server
}

// Join announces the instance: a row with its lease and, on a connection of
// its own, the lock that others look at. A second Join of the same
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
	if s.session == nil {
		if _, err := s.openSession(ctx, instance, lease); err != nil {
			return err
		}
	} else if _, err := renew(ctx, s.session.conn, instance, lease); err != nil {
		return stateError(fmt.Sprintf("join as %q", instance), err)
	}
	err := my.RetryConflict(ctx, func() error {
		_, err := s.db.ExecContext(ctx, sweepSQL)
		return err
	})
	return stateError("sweep dead instances", err)
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
	lanes, err := renew(ctx, s.session.conn, instance, lease)
	if err == nil {
		return lanes, nil
	}
	if ctx.Err() != nil || my.Answered(err) && !my.FailedWith(err, connectionKilled) {
		return nil, stateError(fmt.Sprintf("renew the lease of %q", instance), err)
	}
	s.remember(s.session.id)
	discard(s.session.conn)
	if lanes, err = s.openSession(ctx, instance, lease); err != nil {
		return nil, err // the caller tries again, and says so
	}
	s.log.WarnContext(ctx, "the connection that holds the instance's lock was lost; a new one holds it", "instance", instance)
	return lanes, nil
}

// connectionKilled is MariaDB's last word on a connection that was ended by KILL.
const connectionKilled = 1927

func renew(ctx context.Context, conn *sql.Conn, instance string, lease time.Duration) (map[adapters.LaneRef]adapters.LaneMark, error) {
	err := my.RetryConflict(ctx, func() error {
		_, err := conn.ExecContext(ctx, renewSQL, instance, lease.Microseconds())
		return err
	})
	if err != nil {
		return nil, err
	}
	lanes := make(map[adapters.LaneRef]adapters.LaneMark, adapters.Slots)
	err = state.Each(ctx, conn, ownedSQL, []any{instance}, func(scan func(...any) error) error {
		var ref adapters.LaneRef
		var mark adapters.LaneMark
		err := scan(&ref.Route, &ref.Slot, &mark.Epoch, &mark.Revision, &mark.Commands)
		lanes[ref] = mark
		return err
	})
	return lanes, err
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

// joined reports whether the instance is the one that this store serves. The caller holds mu.
func (s *Store) joined(instance string) error {
	if s.session == nil || s.session.instance != instance {
		return fmt.Errorf("state store: instance %q has not joined; call Join first", instance)
	}
	return nil
}

// openSession connects, takes the instance's lock and renews its lease. Each
// former session whose loss the server has not noticed yet (a broken network) would hold the
// lock for hours, also one that we gave up before it had answered; it is ended, by the
// id of its connection, if it holds the lock.
func (s *Store) openSession(ctx context.Context, instance string, lease time.Duration) (map[adapters.LaneRef]adapters.LaneMark, error) {
	conn, err := s.leases.Conn(ctx)
	if err != nil {
		return nil, stateError(fmt.Sprintf("connect for the lock of instance %q", instance), err)
	}
	session := &stateSession{instance: instance, conn: conn}
	lanes, err := s.lockInstance(ctx, session, lease)
	if err == nil {
		s.session, s.former = session, nil
		return lanes, nil
	}
	if session.id != 0 {
		s.remember(session.id)
	}
	discard(conn)
	if errors.Is(err, errNamesake) {
		return nil, fmt.Errorf("state store: a living process has joined as instance %q; give every instance an id of its own", instance)
	}
	return nil, stateError(fmt.Sprintf("join as %q", instance), err)
}

func (s *Store) lockInstance(ctx context.Context, session *stateSession, lease time.Duration) (map[adapters.LaneRef]adapters.LaneMark, error) {
	conn, name := session.conn, lockOf("?")
	var holder sql.NullInt64
	if err := conn.QueryRowContext(ctx, `SELECT connection_id(), is_used_lock(`+name+`)`, session.instance).Scan(&session.id, &holder); err != nil {
		return nil, err
	}
	if slices.Contains(s.former, holder.Int64) {
		_, _ = conn.ExecContext(ctx, `KILL `+strconv.FormatInt(holder.Int64, 10)) // it may be gone by now; the lock decides
	}
	var got sql.NullInt64
	if err := conn.QueryRowContext(ctx, `SELECT get_lock(`+name+`, `+instanceLockWait+`)`, session.instance).Scan(&got); err != nil {
		return nil, err
	}
	if got.Int64 != 1 {
		return nil, errNamesake
	}
	return renew(ctx, conn, session.instance, lease)
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

// remember notes a session whose end the server may not know of.
func (s *Store) remember(id int64) {
	if !slices.Contains(s.former, id) {
		s.former = append(s.former, id)
		s.former = s.former[max(0, len(s.former)-formerSessions):]
	}
}

// closeSession ends the session and with it the lock. The caller holds mu.
func (s *Store) closeSession() {
	if s.session == nil {
		return
	}
	release(s.session.conn, lockOf("?"), s.session.instance)
	s.session = nil
}

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
