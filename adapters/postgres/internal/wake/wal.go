package wake

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
)

const (
	// walApplication names the connection in pg_stat_replication.
	walApplication = "outrider wake"

	// walBytes is how much WAL may come in a second: with more, a poll costs less than what the server would send.
	walBytes = 4 << 20

	// walSilence is after how long without a message the server is asked for one; after twice as long the connection is lost.
	walSilence = 10 * time.Second

	// sendersSQL counts the connections that get WAL, with those that are allowed, and says whether this role may have one.
	sendersSQL = `SELECT (SELECT count(*) FROM pg_catalog.pg_stat_get_wal_senders()), current_setting('max_wal_senders')::int,
    current_setting('wal_level'), r.rolname, r.rolsuper OR r.rolreplication
FROM pg_catalog.pg_roles r WHERE r.rolname = current_user`
)

// refused is why there is no connection for a while, though the server is there, and what to do.
type refused struct {
	why, fix string
	passes   bool // by itself
}

func (r *refused) Error() string { return r.why + "; " + r.fix }

// errBusy: the server writes so much WAL that it is not followed for a while.
var errBusy = &refused{fmt.Sprintf("more than %d MiB of WAL in a second", walBytes>>20), "it is followed again when there is less", true}

// follower wakes the reader of a source whenever the server has flushed WAL.
type follower struct {
	*Waker
	*stream
}

func (f *follower) run(ctx context.Context) error {
	defer f.close()
	defer f.call() // nothing wakes it any more
	f.follows.Store(true)
	defer f.follows.Store(false)
	for {
		f.call() // first: it may have gone to sleep for long before
		if err := f.next(ctx); err != nil {
			return err
		}
	}
}

// senders is what [sendersSQL] returns.
type senders struct {
	used, most int
	level      string
	role       string
	may        bool
}

func readSenders(ctx context.Context, pool *pgxpool.Pool) (s senders, err error) {
	err = pool.QueryRow(ctx, sendersSQL).Scan(&s.used, &s.most, &s.level, &s.role, &s.may)
	return s, err
}

// check returns why no connection, or, once it is made, no more than it, may be used: standbys and backups need theirs.
func (s *senders) check() error {
	role := pgx.Identifier{s.role}.Sanitize()
	switch {
	case !s.may:
		return &refused{"role " + role + " may not read the WAL", "a superuser permits it by ALTER ROLE " + role + " REPLICATION", false}
	case s.level == "minimal":
		return &refused{"wal_level is minimal", "set it to replica, the server's default", false}
	case 2*s.used > s.most:
		return &refused{fmt.Sprintf("%d of max_wal_senders (%d) connections get WAL, and half of them stay free for standbys and backups", s.used, s.most),
			"raise max_wal_senders, or have fewer relays follow the WAL", true}
	}
	return nil
}

// stream is a connection on which the server sends its WAL as it is flushed. It has no slot, so nothing is kept for it, and nothing is left
// of it. It says what it received, never what it flushed, so no commit ever waits for it or counts on it as a standby.
type stream struct {
	conn     *pgconn.PgConn
	received uint64 // the position up to which WAL has come
	since    time.Time
	bytes    int // since then
	silence  time.Duration
	silent   bool
}

// openStream begins a stream with the WAL of now.
func openStream(ctx context.Context, pool *pgxpool.Pool, silence time.Duration) (*stream, error) {
	ctx, cancel := context.WithTimeout(ctx, wakePatience)
	defer cancel()
	before, err := readSenders(ctx, pool)
	if err == nil {
		err = before.check()
	}
	if err != nil {
		return nil, pg.Plainly(err)
	}
	conn, err := pg.Dial(ctx, pool, func(c *pgconn.Config) {
		c.RuntimeParams["replication"], c.RuntimeParams["application_name"] = "true", walApplication
		if c.ValidateConnect != nil { // it may use SQL, which there is none of on such a connection
			c.ValidateConnect = primary
		}
	})
	if err != nil {
		return nil, replicationRefused(&before, err)
	}
	s := &stream{conn: conn, since: time.Now(), silence: silence}
	after, err := readSenders(ctx, pool) // others may have come at the same time
	if err == nil {
		err = after.check()
	}
	if err == nil {
		err = s.begin(ctx)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// primary lets no standby be followed: it has each commit a little later.
func primary(_ context.Context, conn *pgconn.PgConn) error {
	if conn.ParameterStatus("in_hot_standby") == "on" {
		return errors.New("the server is a standby")
	}
	return nil
}

// replicationRefused says what a server means that refuses the connection, though the role may have it.
func replicationRefused(s *senders, err error) error {
	var refusal *pgconn.PgError
	if !errors.As(err, &refusal) {
		return pg.Plainly(err)
	}
	role := pgx.Identifier{s.role}.Sanitize()
	switch {
	case strings.HasPrefix(refusal.Code, "57"): // it starts or stops
		return pg.Plainly(err)
	case refusal.Code == "28000":
		return &refused{"pg_hba.conf has no line for replication by role " + role, "add one: host replication " + role + " ADDRESS scram-sha-256", false}
	case refusal.Code == "53300": // all of max_wal_senders, or of max_connections
		return &refused{"the server has no connection for it: " + refusal.Message, "raise the limit, or have fewer relays follow the WAL", true}
	}
	return &refused{"the server refuses a connection for replication: " + refusal.Message, "connect to the server itself, not to a pooler", false}
}

// begin asks for the WAL from now on.
func (s *stream) begin(ctx context.Context) error {
	system, err := s.conn.Exec(ctx, "IDENTIFY_SYSTEM").ReadAll()
	if err != nil {
		return err
	}
	if len(system) != 1 || len(system[0].Rows) != 1 || len(system[0].Rows[0]) < 3 {
		return errors.New("IDENTIFY_SYSTEM: an unexpected answer")
	}
	s.conn.Frontend().SendQuery(&pgproto3.Query{String: "START_REPLICATION PHYSICAL " + string(system[0].Rows[0][2])})
	if err := s.conn.Frontend().Flush(); err != nil {
		return err
	}
	for {
		msg, err := s.conn.ReceiveMessage(ctx)
		if err != nil {
			return err
		}
		switch msg := msg.(type) {
		case *pgproto3.CopyBothResponse:
			return nil
		case *pgproto3.ErrorResponse:
			return pgconn.ErrorResponseToPgError(msg)
		}
	}
}

// next waits until WAL was flushed, and answers the server meanwhile.
func (s *stream) next(ctx context.Context) error {
	for {
		data, err := s.receive(ctx)
		if err != nil {
			return err
		}
		const header, keepalive = 25, 18 // bytes: of WAL's messages, and of the server's keepalives
		switch {
		case len(data) >= header && data[0] == 'w':
			s.received = binary.BigEndian.Uint64(data[1:]) + uint64(len(data)-header)
			return s.count(len(data))
		case len(data) >= keepalive && data[0] == 'k' && data[keepalive-1] == 1:
			s.received = max(s.received, binary.BigEndian.Uint64(data[1:]))
			if err := s.report(false); err != nil {
				return err
			}
		}
	}
}

// receive returns the content of the next message. It asks a silent server whether it is there.
func (s *stream) receive(ctx context.Context) ([]byte, error) {
	for {
		limited, cancel := context.WithTimeout(ctx, s.silence)
		msg, err := s.conn.ReceiveMessage(limited)
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil && pgconn.Timeout(err) && !s.silent && !s.conn.IsClosed():
			s.silent = true
			if err := s.report(true); err != nil {
				return nil, err
			}
			continue
		case err != nil:
			return nil, err
		}
		s.silent = false
		switch msg := msg.(type) {
		case *pgproto3.CopyData:
			return msg.Data, nil
		case *pgproto3.ErrorResponse:
			return nil, pgconn.ErrorResponseToPgError(msg)
		case *pgproto3.CopyDone:
			return nil, errors.New("the server has ended the stream")
		}
	}
}

// count returns [errBusy] if too much WAL comes.
func (s *stream) count(bytes int) error {
	if now := time.Now(); now.Sub(s.since) >= time.Second {
		s.since, s.bytes = now, 0
	}
	if s.bytes += bytes; s.bytes > walBytes {
		return errBusy
	}
	return nil
}

// report tells the server what has come; ask: and wants an answer. A server that stops waits for this, and for nothing else of us.
func (s *stream) report(ask bool) error {
	const length, askAt = 34, 33
	b := make([]byte, length)
	b[0] = 'r'
	binary.BigEndian.PutUint64(b[1:], s.received) // what was flushed and applied stays 0: see stream
	if ask {
		b[askAt] = 1
	}
	s.conn.Frontend().Send(&pgproto3.CopyData{Data: b})
	return s.conn.Frontend().Flush()
}

// close ends the connection.
func (s *stream) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = s.conn.Close(ctx) // nothing depends on a polite end
}
