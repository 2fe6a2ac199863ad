package amqp

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	rabbit "github.com/rabbitmq/amqp091-go"
)

const (
	heartbeat   = 10 * time.Second
	longestDial = 5 * time.Second // TLS and login included
	discardTime = 5 * time.Second // that a server may take to close a channel
	maxChannels = 256             // in use at once; servers allow 2047 on a connection by default
	maxReturns  = 16              // that wait to be looked at
)

var errClosed = errors.New("amqp: the destination is closed")

// blockedError says that the server reads nothing from publishers, because it is short of memory or disk.
type blockedError struct{ reason string }

func (e *blockedError) Error() string {
	return "amqp: the broker blocks publishers: " + e.reason + "; free memory or disk space on it (rabbitmq-diagnostics alarms)"
}

// link is a connection.
type link struct {
	conn *rabbit.Connection
	raw  net.Conn

	mu      sync.Mutex
	idle    []*channel
	blocked chan struct{} // closed while the server blocks publishers
	reason  string
}

// channel is a channel in confirm mode, which one wave has at a time.
type channel struct {
	*rabbit.Channel
	link    *link
	returns chan rabbit.Return
	closed  chan *rabbit.Error // why the server closed it
}

// pool has the connection of a destination, made when it is needed, and its idle channels.
type pool struct {
	cfg    *Config
	places chan struct{} // of channels in use
	dial   chan struct{} // a lock: one connects, and others wait for it

	mu     sync.Mutex
	link   *link
	failed time.Time // when err was
	err    error     // of the last attempt to connect
	closed bool
}

func newPool(cfg *Config) pool {
	return pool{cfg: cfg, places: make(chan struct{}, maxChannels), dial: make(chan struct{}, 1)}
}

// get returns a channel, which the caller gives back by put or discard. It returns when ctx is done.
func (p *pool) get(ctx context.Context) (*channel, error) {
	select {
	case p.places <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	type result struct {
		c   *channel
		err error
	}
	if c := p.takeIdle(); c != nil {
		return c, nil
	}
	got := make(chan result, 1)
	go func() {
		c, err := p.open(ctx)
		got <- result{c, err}
	}()
	select {
	case r := <-got:
		if r.err != nil {
			<-p.places
		}
		return r.c, r.err
	case <-ctx.Done():
		go func() {
			if r := <-got; r.err == nil {
				p.put(r.c)
			} else {
				<-p.places
			}
		}()
		return nil, ctx.Err()
	}
}

// open opens a channel. What the server has to answer is not bounded by ctx.
func (p *pool) open(ctx context.Context) (*channel, error) {
	l, err := p.connect(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := l.state(); err != nil {
		return nil, err
	}
	return l.open()
}

// put gives a channel back.
func (p *pool) put(c *channel) {
	<-p.places
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	if !c.IsClosed() {
		c.link.idle = append(c.link.idle, c)
	}
}

// discard gives back a channel with messages whose outcome is unknown. When the server has closed it, it takes none of them any more.
func (p *pool) discard(c *channel) {
	<-p.places
	c.discard()
}

// takeIdle returns a channel that is open and idle, if there is one and the server takes messages.
func (p *pool) takeIdle() *channel {
	p.mu.Lock()
	l := p.link
	p.mu.Unlock()
	if l == nil {
		return nil
	}
	if _, err := l.state(); err != nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for n := len(l.idle); n > 0; n = len(l.idle) {
		c := l.idle[n-1]
		l.idle = l.idle[:n-1]
		if !c.IsClosed() {
			return c
		}
	}
	return nil
}

// connect returns the connection, made again if it was lost. Callers that waited while another failed share its error.
func (p *pool) connect(ctx context.Context) (*link, error) {
	begin := time.Now()
	select {
	case p.dial <- struct{}{}:
		defer func() { <-p.dial }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	p.mu.Lock()
	l, closed, failed, err := p.link, p.closed, p.failed, p.err
	p.mu.Unlock()
	switch {
	case closed:
		return nil, errClosed
	case l != nil && !l.conn.IsClosed():
		return l, nil
	case failed.After(begin):
		return nil, err
	}
	l, err = dial(ctx, p.cfg)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil && p.closed {
		l.kill()
		err = errClosed
	}
	if err != nil {
		p.failed, p.err = time.Now(), err
		return nil, err
	}
	p.link = l
	return l, nil
}

func (p *pool) close() {
	p.mu.Lock()
	l := p.link
	p.closed, p.link = true, nil
	p.mu.Unlock()
	if l != nil {
		_ = l.conn.CloseDeadline(time.Now().Add(time.Second)) // it may hang
		l.kill()
	}
}

// dial makes a connection.
func dial(ctx context.Context, cfg *Config) (*link, error) {
	l := &link{blocked: make(chan struct{})}
	options := rabbit.Config{Heartbeat: heartbeat, Properties: properties(), TLSClientConfig: cfg.TLS.Clone(),
		Dial: func(network, address string) (net.Conn, error) {
			dialer := net.Dialer{Timeout: longestDial}
			raw, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			l.raw = raw
			return raw, raw.SetDeadline(time.Now().Add(longestDial)) // the client ends it after the login
		}}
	conn, err := rabbit.DialConfig(cfg.URL, options)
	if err != nil {
		if l.raw != nil {
			_ = l.raw.Close()
		}
		return nil, err
	}
	l.conn = conn
	go l.watch(conn.NotifyBlocked(make(chan rabbit.Blocking, 1)))
	return l, nil
}

// properties name our connections to operators of the broker.
func properties() rabbit.Table {
	p := rabbit.NewConnectionProperties()
	p.SetClientConnectionName("outrider")
	return p
}

// watch follows whether the server blocks publishers, until the connection ends. A second alarm may come while the first lasts, and the end of
// an alarm that was not reported.
func (l *link) watch(events <-chan rabbit.Blocking) {
	for e := range events {
		l.mu.Lock()
		select {
		case <-l.blocked:
			if !e.Active {
				l.blocked = make(chan struct{})
			}
		default:
			if e.Active {
				close(l.blocked)
			}
		}
		l.reason = e.Reason
		l.mu.Unlock()
	}
}

// state returns what is closed when the server blocks publishers, and an error if it does already.
func (l *link) state() (blocked <-chan struct{}, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.blocked:
		return l.blocked, &blockedError{l.reason}
	default:
		return l.blocked, nil
	}
}

// open opens a channel on the connection.
func (l *link) open() (*channel, error) {
	ch, err := l.conn.Channel()
	if err != nil {
		return nil, err
	}
	c := &channel{Channel: ch, link: l, returns: ch.NotifyReturn(make(chan rabbit.Return, maxReturns)), closed: ch.NotifyClose(make(chan *rabbit.Error, 1))}
	if err := ch.Confirm(false); err != nil {
		c.discard()
		return nil, err
	}
	return c, nil
}

// discard closes a channel without waiting for the server. If that does not answer although it blocks no publishers, the whole connection is given up.
func (c *channel) discard() {
	go func() {
		for range c.returns { // the client reads no further until they are taken
		}
	}()
	late := time.AfterFunc(discardTime, func() {
		if _, err := c.link.state(); err == nil {
			c.link.kill()
		}
	})
	go func() {
		_ = c.Close() // that it is closed already is as good
		late.Stop()
	}()
}

// kill ends the connection without a word to the server.
func (l *link) kill() { _ = l.raw.Close() }

func (p *pool) isClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}
