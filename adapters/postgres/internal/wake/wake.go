package wake

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider/adapters"
)

// Mode is how a source notices new rows.
type Mode string

// The ways of noticing new rows.
const (
	Poll   Mode = "poll"   // by reading again and again; the default
	Notify Mode = "notify" // by NOTIFY as well, on a connection of its own
)

// Check refuses other words; empty is the default.
func (m Mode) Check() error {
	if m != "" && m != Poll && m != Notify {
		return errors.New("Wake must be WakePoll or WakeNotify, is " + string(m))
	}
	return nil
}

const (
	// wakePatience bounds one statement on the listening connection.
	wakePatience = 5 * time.Second

	// wakeBackoff and wakeBackoffMax bound the pauses between attempts to connect: a
	// listener is to be back within a second of the server, after several attempts on
	// connections of the pool that broke with the server.
	wakeBackoff    = 50 * time.Millisecond
	wakeBackoffMax = 250 * time.Millisecond

	// wakeWarned is the shortest time between two warnings that the connection was lost.
	wakeWarned = 10 * time.Second

	// wakeRelied is how long a reader relies on the lock of another one, of whose
	// end it gets no notification of it.
	wakeRelied = 10 * time.Second
)

// Waker listens for writers on a connection of its own, and shows them there
// whether the reader sleeps: the locks of [outbox.WakeNamespace] belong to that
// session, so that they end with it.
//
// One goroutine has the connection. It waits for notifications, and what the
// reader asks of it interrupts that.
type Waker struct {
	pool   *pgxpool.Pool
	tables []string // their names without schema; nil: not listening
	names  []pgx.Identifier
	log    *slog.Logger
	Relied time.Duration                                  // wakeRelied
	Rest   func(ctx context.Context, pause time.Duration) // between attempts to connect; constant, but for tests

	woken chan struct{}
	asks  chan ask
	ready atomic.Bool // the connection listens, and asks are answered

	mu     sync.Mutex
	cancel context.CancelFunc // ends listening; nil before it has begun
	ended  sync.WaitGroup
}

// ask is a request of the reader to the listening connection. A nil answer: to
// be awake.
type ask struct{ answer chan<- adapters.Sleep }

// New returns the waker of a reader of these tables.
func New(w Mode, pool *pgxpool.Pool, log *slog.Logger, tables ...pgx.Identifier) *Waker {
	out := &Waker{pool: pool, log: log, Relied: wakeRelied, Rest: pauseFor, woken: make(chan struct{}, 1), asks: make(chan ask)}
	if w == Notify {
		for _, t := range tables {
			out.tables = append(out.tables, t[len(t)-1])
			out.names = append(out.names, t)
		}
	}
	return out
}

// Wake implements [adapters.Waker]. nil unless the source is configured to notify.
func (w *Waker) Wake() <-chan struct{} {
	if w.tables == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cancel == nil {
		var ctx context.Context
		ctx, w.cancel = context.WithCancel(context.Background())
		w.ended.Go(func() { w.listen(ctx) })
	}
	return w.woken
}

// Sleep implements [adapters.Waker].
func (w *Waker) Sleep(ctx context.Context) adapters.Sleep {
	answer := make(chan adapters.Sleep, 1)
	if !w.ask(ctx, ask{answer}) {
		if w.ready.Load() {
			return adapters.Draining // a slow server keeps it busy; it answers soon, or its connection ends
		}
		return adapters.Unsupported
	}
	select {
	case s := <-answer:
		return s
	case <-ctx.Done():
		return adapters.Unsupported
	}
}

// Awake implements [adapters.Waker].
func (w *Waker) Awake() { w.ask(context.Background(), ask{}) }

// ask hands something to the listening goroutine; false: it does not listen, or was busy for too long.
func (w *Waker) ask(ctx context.Context, a ask) bool {
	if !w.ready.Load() {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, wakePatience) // it may have been lost meanwhile
	defer cancel()
	select {
	case w.asks <- a:
		return true
	case <-ctx.Done():
		return false
	}
}

// Stop ends listening and waits for it.
func (w *Waker) Stop() {
	w.mu.Lock()
	cancel := w.cancel
	if cancel == nil {
		w.cancel = func() {} // it does not begin any more
	}
	w.mu.Unlock()
	if cancel != nil {
		cancel()
	}
	w.ended.Wait()
}

// call lets the reader look.
func (w *Waker) call() {
	select {
	case w.woken <- struct{}{}:
	default:
	}
}

// listen keeps a connection listening until ctx ends. While there is none the
// reader polls.
func (w *Waker) listen(ctx context.Context) {
	pause, failing, warned := wakeBackoff, false, time.Time{}
	for ctx.Err() == nil {
		began := time.Now()
		l, err := w.connect(ctx)
		if err == nil {
			if failing {
				w.log.InfoContext(ctx, "notifications are heard again", "tables", w.tables)
			}
			failing = false
			err = l.run(ctx)
		}
		if ctx.Err() != nil {
			return
		}
		if now := time.Now(); !failing && now.Sub(warned) > wakeWarned {
			failing, warned = true, now
			w.log.WarnContext(ctx, "notifications are not heard; new rows are found by polling until they are", "tables", w.tables, "error", err)
		}
		if time.Since(began) > wakeBackoffMax { // it has worked
			pause = wakeBackoff
		}
		w.Rest(ctx, pause)
		pause = min(2*pause, wakeBackoffMax)
	}
}

// pauseFor pauses, unless ctx ends.
func pauseFor(ctx context.Context, pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
