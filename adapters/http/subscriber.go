package http

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
)

// SubscriberConfig configures a [Subscriber].
type SubscriberConfig struct {
	// Listen is the address, as host:port. Required. One that other machines can
	// reach needs Tokens.
	Listen string

	// Tokens are the bearer tokens of which a request needs one. Empty: none is
	// needed, and requests must be addressed to localhost or an IP address.
	Tokens []string

	// MaxBody is the largest payload in bytes; a larger one is answered with 413.
	// Default: 16 MiB.
	MaxBody int64

	// MaxRequests bounds the requests that are read or wait for their verdict; more
	// are answered with 503. Default: 256.
	MaxRequests int

	// Logger takes what no caller hears of. Default: slog.Default().
	Logger *slog.Logger
}

// Defaults of [SubscriberConfig].
const (
	DefaultMaxBody            = 16 << 20
	DefaultSubscriberRequests = 256
)

// WithDefaults returns the configuration completed, or all that is wrong with it.
func (c SubscriberConfig) WithDefaults() (SubscriberConfig, error) {
	setDefault(&c.MaxBody, DefaultMaxBody)
	setDefault(&c.MaxRequests, DefaultSubscriberRequests)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	var errs []error
	if c.MaxBody < 0 || c.MaxRequests < 0 {
		errs = append(errs, errors.New("max body and max requests must not be negative"))
	}
	host, _, err := net.SplitHostPort(c.Listen)
	switch {
	case err != nil:
		errs = append(errs, fmt.Errorf("listen: %w: give host:port, such as 127.0.0.1:8090", err))
	case len(c.Tokens) == 0 && !loopback(host):
		errs = append(errs, fmt.Errorf("listen: other machines can reach %s, and there is no token: give one, or listen on 127.0.0.1", c.Listen))
	}
	for _, token := range c.Tokens {
		if token == "" {
			errs = append(errs, errors.New("tokens: one is empty, which every request would have"))
		}
	}
	return c, errors.Join(errs...)
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// Subscriber takes messages as watermill-http's Publisher sends them: a POST with the
// UUID and the metadata in headers and the payload as the body. The answer waits for
// the verdict: 200 after the Ack, 503 after a Nack. A caller that hears nothing
// sends again, so a message can come twice. It is a Watermill message.Subscriber.
//
// It listens while there is a subscription, so a load balancer finds the instance
// that takes messages.
type Subscriber struct {
	cfg     SubscriberConfig
	slots   chan struct{} // one for each request that is under way
	closing chan struct{}
	work    sync.WaitGroup

	mu     sync.Mutex
	closed bool
	subs   map[string]*subscription // by path
	server *http.Server             // nil: nothing is subscribed to
	addr   net.Addr
}

// subscription receives the requests to one path.
type subscription struct {
	ctx     context.Context
	out     chan *message.Message
	senders sync.WaitGroup // requests that may write to out
}

var _ message.Subscriber = (*Subscriber)(nil)

// NewSubscriber returns a subscriber, or an error that lists what is wrong with the
// configuration. It listens from the first [Subscriber.Subscribe] on.
func NewSubscriber(cfg SubscriberConfig) (*Subscriber, error) {
	cfg, err := cfg.WithDefaults()
	if err != nil {
		return nil, fmt.Errorf("http source: %w", err)
	}
	return &Subscriber{cfg: cfg, slots: make(chan struct{}, cfg.MaxRequests), closing: make(chan struct{}),
		subs: map[string]*subscription{}}, nil
}

var errSubscriberClosed = errors.New("http source: it is closed")

// Subscribe takes what is posted to a path, until ctx ends. A path has one
// subscription at a time: a message has one verdict.
func (s *Subscriber) Subscribe(ctx context.Context, path string) (<-chan *message.Message, error) {
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errSubscriberClosed
	}
	if old := s.subs[path]; old != nil && old.ctx.Err() == nil {
		return nil, fmt.Errorf("http source: path %s has a subscription, and a message has one verdict", path)
	}
	if s.server == nil {
		if err := s.startLocked(ctx); err != nil {
			return nil, err
		}
	}
	sub := &subscription{ctx: ctx, out: make(chan *message.Message)}
	s.subs[path] = sub
	s.work.Go(func() { s.endWith(path, sub) })
	return sub.out, nil
}

// endWith ends a subscription with its context, or with the subscriber. With the last
// one the port is free for another process.
func (s *Subscriber) endWith(path string, sub *subscription) {
	select {
	case <-sub.ctx.Done():
	case <-s.closing:
	}
	s.mu.Lock()
	var idle *http.Server
	if s.subs[path] == sub {
		if delete(s.subs, path); len(s.subs) == 0 {
			idle, s.server = s.server, nil
		}
	}
	s.mu.Unlock()
	sub.senders.Wait()
	close(sub.out)
	if idle != nil {
		s.stop(idle)
	}
}

const (
	lastAnswers = 5 * time.Second       // what requests have for their answer when the port is given up
	portFree    = 5 * time.Second       // how long a port is waited for that is still in use
	portPause   = 20 * time.Millisecond // between two tries to have it
	bodyPeriod  = 60 * time.Second      // how long a body may take to arrive
	retryAfter  = "1"                   // seconds, in an answer that means: send it again
)

// stop closes the port and lets requests have their answers.
func (s *Subscriber) stop(server *http.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), lastAnswers)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		s.cfg.Logger.Warn("requests to the http source had no answer when it stopped listening", "listen", s.cfg.Listen, "error", err)
		_ = server.Close() // what is left is cut off
	}
}

// startLocked listens. The port may still belong to the generation or the process
// that gave the lanes up just now.
func (s *Subscriber) startLocked(ctx context.Context) error {
	var listener net.Listener
	for until := time.Now().Add(portFree); ; {
		var err error
		if listener, err = new(net.ListenConfig).Listen(ctx, "tcp", s.cfg.Listen); err == nil {
			break
		}
		if !errors.Is(err, syscall.EADDRINUSE) || time.Now().After(until) {
			return fmt.Errorf("http source: %w", err)
		}
		select {
		case <-time.After(portPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	server := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		ErrorLog: slog.NewLogLogger(s.cfg.Logger.Handler(), slog.LevelWarn)}
	s.server, s.addr = server, listener.Addr()
	s.work.Go(func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.cfg.Logger.Error("the http source does not listen any more", "listen", s.cfg.Listen, "error", err)
		}
	})
	return nil
}

// Addr is where it listens, or did; nil before the first subscription.
func (s *Subscriber) Addr() net.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addr
}

// Close ends all subscriptions; requests that have no verdict are answered with 503.
func (s *Subscriber) Close() error {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.closing)
	}
	s.mu.Unlock()
	s.work.Wait()
	return nil
}
