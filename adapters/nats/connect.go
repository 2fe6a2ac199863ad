package nats

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

var (
	errClosed = errors.New("nats: the destination is closed")
	errLost   = errors.New("the connection was lost before the answer")
)

// away is the error while there is no connection to any server.
type away struct {
	servers []string
	err     error
}

func (a *away) Error() string {
	reason := a.err.Error()
	if errors.Is(a.err, natsgo.ErrNoServers) { // what the client says of refused connections
		reason = "connection refused"
	}
	return fmt.Sprintf("nats: no server of %s answers: %s", strings.Join(a.servers, ", "), reason)
}
func (a *away) Unwrap() error { return a.err }

const (
	longestDial   = 3 * time.Second
	reconnectWait = 250 * time.Millisecond
	pingInterval  = 20 * time.Second // two without an answer end a connection
)

// link is the one connection of a destination, made when it is first needed.
type link struct {
	cfg     Connection
	timeout time.Duration
	denied  atomic.Pointer[string] // the latest operation that the servers did not permit

	mu      sync.Mutex
	conn    *natsgo.Conn
	js      jetstream.JetStream
	session context.Context // ends when the connection is lost; a connection that is made again has a new one
	lose    context.CancelCauseFunc
	failed  error // why the latest connection could not be made
	retry   time.Time
	closed  bool
}

// get returns JetStream on the connection, with a context that ends when the connection is lost.
func (l *link) get() (jetstream.JetStream, context.Context, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return nil, nil, errClosed
	case l.conn == nil || l.conn.IsClosed():
		if time.Now().Before(l.retry) {
			return nil, nil, &away{l.cfg.Servers, l.failed}
		}
		if err := l.connectLocked(); err != nil {
			l.failed, l.retry = err, time.Now().Add(reconnectWait)
			return nil, nil, &away{l.cfg.Servers, err}
		}
	case !l.conn.IsConnected():
		return nil, nil, &away{l.cfg.Servers, cmp.Or(l.failed, natsgo.ErrDisconnected)}
	}
	return l.js, l.session, nil
}

func (l *link) connectLocked() error {
	opts, err := l.cfg.options(min(l.timeout, longestDial))
	if err != nil {
		return err
	}
	conn, err := natsgo.Connect(strings.Join(l.cfg.Servers, ","), append(opts,
		natsgo.DisconnectErrHandler(func(_ *natsgo.Conn, err error) { l.lost(err) }),
		natsgo.ReconnectErrHandler(func(_ *natsgo.Conn, err error) { l.stillAway(err) }),
		natsgo.ErrorHandler(func(_ *natsgo.Conn, _ *natsgo.Subscription, err error) { l.note(err) }))...)
	if err != nil {
		return err
	}
	js, err := jetstream.New(conn, jetstream.WithDefaultTimeout(l.timeout))
	if err != nil {
		conn.Close()
		return err
	}
	l.conn, l.js, l.failed = conn, js, nil
	l.denied.Store(nil)
	l.session, l.lose = context.WithCancelCause(context.Background())
	return nil
}

// lost ends what waits for answers: they were for the former connection.
func (l *link) lost(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed = err
	l.denied.Store(nil) // the next connection may have other permissions
	if l.lose != nil {
		l.lose(errLost)
	}
	l.session, l.lose = context.WithCancelCause(context.Background())
}

// stillAway keeps why there is no connection.
func (l *link) stillAway(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed = err
}

// note takes errors that belong to no request.
func (l *link) note(err error) {
	if errors.Is(err, natsgo.ErrPermissionViolation) {
		text := err.Error()
		l.denied.Store(&text)
	}
	l.cfg.Logger.Debug("nats client", slog.Any("error", err))
}

func (l *link) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.conn != nil {
		l.lose(errClosed)
		l.conn.Close()
	}
}

// options returns the client's options.
func (c *Connection) options(dial time.Duration) ([]natsgo.Option, error) {
	opts := []natsgo.Option{
		natsgo.Name("outrider"),
		natsgo.Timeout(dial),
		natsgo.FlusherTimeout(dial), // a server that reads nothing loses the connection after that
		natsgo.MaxReconnects(-1),
		natsgo.ReconnectWait(reconnectWait),
		natsgo.ReconnectBufSize(-1), // nothing is sent later than it was asked for
		natsgo.IgnoreAuthErrorAbort(),
		natsgo.PingInterval(pingInterval),
	}
	if c.TLS != nil {
		opts = append(opts, natsgo.Secure(c.TLS))
	}
	switch {
	case c.User != "":
		opts = append(opts, natsgo.UserInfo(c.User, c.Password))
	case c.Token != "":
		opts = append(opts, natsgo.Token(c.Token))
	case c.CredentialsFile != "":
		opts = append(opts, natsgo.UserCredentials(c.CredentialsFile))
	case c.NKeyFile != "":
		nkey, err := natsgo.NkeyOptionFromSeed(c.NKeyFile)
		if err != nil {
			return nil, fmt.Errorf("nkey file %s: %w", c.NKeyFile, err)
		}
		opts = append(opts, nkey)
	}
	return opts, nil
}
