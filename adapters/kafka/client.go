package kafka

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// errClosed is the error of deliveries after Close.
var errClosed = errors.New("kafka: the destination is closed")

// client is a franz-go client that one wave at a time has to itself.
type client struct {
	*kgo.Client
	watch *watch
	known map[string]bool // topics that franz-go has the metadata of
	spent bool            // closed in the middle of a wave, not to be used again

	// refused: the brokers may have refused it a producer id, which franz-go never asks
	// for again. Not to be used again either.
	refused bool

	transactional string // id of a lane's fenced producer, whose waves are transactions; empty: none
	recalled      bool   // the notes of its lane were read
}

// forget makes the client ask for a topic again when it is next used. Without it
// a topic that does not exist is looked up four times a second for ever, and one
// that access was denied to stays denied.
func (c *client) forget(topic string) {
	delete(c.known, topic)
	c.PurgeTopicsFromProducing(topic)
}

// pool hands out clients. Idle ones are taken last in, first out, so that those
// that a quiet time does not need lose their connections.
type pool struct {
	opts  []kgo.Opt
	slots chan struct{} // one value per client in use

	mu     sync.Mutex
	idle   []*client
	closed bool
}

func newPool(opts []kgo.Opt, size int) *pool {
	return &pool{opts: opts, slots: make(chan struct{}, size)}
}

// get returns a client, waiting for one if all are in use.
func (p *pool) get(ctx context.Context) (*client, error) {
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	c, err := p.take()
	if err != nil {
		<-p.slots
	}
	return c, err
}

func (p *pool) take() (*client, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errClosed
	}
	if n := len(p.idle); n > 0 {
		c := p.idle[n-1]
		p.idle = p.idle[:n-1]
		return c, nil
	}
	return open(p.opts)
}

// open makes a client; it connects when it is first used.
func open(opts []kgo.Opt) (*client, error) {
	w := new(watch)
	cl, err := kgo.NewClient(append(slices.Clip(opts), kgo.WithHooks(w))...)
	if err != nil {
		return nil, err
	}
	w.seeds, _ = cl.OptValue(kgo.SeedBrokers).([]string)
	return &client{Client: cl, watch: w, known: map[string]bool{}}, nil
}

// put gives a client back.
func (p *pool) put(c *client) {
	p.mu.Lock()
	keep := !c.spent && !c.refused && !p.closed
	if keep {
		p.idle = append(p.idle, c)
	}
	p.mu.Unlock()
	if !keep && !c.spent {
		c.Close()
	}
	<-p.slots
}

// close closes the idle clients; those in use are closed when they come back.
func (p *pool) close() {
	p.mu.Lock()
	idle := p.idle
	p.idle, p.closed = nil, true
	p.mu.Unlock()
	for _, c := range idle {
		c.Close()
	}
}

// watch receives franz-go's events of a client.
type watch struct {
	reach
	wave *wave // the one that has the client

	// refused is why the last connection could not be made: what franz-go
	// returns after its retries says only that time ran out.
	refused atomic.Pointer[error]
}

// OnBrokerConnect implements kgo.HookBrokerConnect.
func (w *watch) OnBrokerConnect(to kgo.BrokerMetadata, took time.Duration, _ net.Conn, err error) {
	if err == nil {
		w.refused.Store(nil)
	} else {
		w.failedAt(to, took, err)
		w.refused.Store(&err)
	}
}

// OnProduceRecordPartitioned implements kgo.HookProduceRecordPartitioned.
func (w *watch) OnProduceRecordPartitioned(*kgo.Record, int32) { w.wave.onPlaced() }

// explain adds the reason why no connection could be made, if that is so.
func (w *watch) explain(err error) error {
	if last := w.refused.Load(); last != nil {
		return &explained{err, *last}
	}
	return err
}

type explained struct{ err, reason error }

func (e *explained) Error() string   { return e.err.Error() + ": " + e.reason.Error() }
func (e *explained) Unwrap() []error { return []error{e.err, e.reason} }

// logger passes franz-go's warnings on.
type logger struct{ to *slog.Logger }

// Level implements kgo.Logger.
func (logger) Level() kgo.LogLevel { return kgo.LogLevelWarn }

// Log implements kgo.Logger. Deliver returns the errors of franz-go as well;
// they are logged where their verdicts are decided.
func (l logger) Log(_ kgo.LogLevel, msg string, keyvals ...any) {
	l.to.Debug("kafka client: "+msg, keyvals...)
}
