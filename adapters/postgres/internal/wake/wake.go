package wake

import (
	"cmp"
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
	Poll        Mode = "poll"        // by reading again and again; the default
	Notify      Mode = "notify"      // by NOTIFY as well, on a connection of its own
	Replication Mode = "replication" // by the server's WAL as well, on a connection of its own
	Auto        Mode = "auto"        // by WAL where the role may read it, else by NOTIFY where the tables have the trigger
)

// Check refuses other words; empty is the default.
func (m Mode) Check() error {
	switch m {
	case "", Poll, Notify, Replication, Auto:
		return nil
	}
	return errors.New("Wake must be WakePoll, WakeNotify, WakeReplication or WakeAuto, is " + string(m))
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

	// wakePassing and wakeRefused are the pauses where there is no connection for a reason that passes by itself, and for one that somebody
	// has to mend.
	wakePassing = 10 * time.Second
	wakeRefused = time.Minute

	// wakeRelied is how long a reader relies on the lock of another one, of whose
	// end it gets no notification of it.
	wakeRelied = 10 * time.Second
)

// Waker wakes a reader: it listens for writers, and shows them whether the reader sleeps, or it follows the server's WAL. Each has a
// connection of its own.
//
// The locks of [outbox.WakeNamespace] belong to the session that listens, so that they end with it. One goroutine has that connection. It
// waits for notifications, and what the reader asks of it interrupts that.
type Waker struct {
	mode   Mode
	pool   *pgxpool.Pool
	tables []string // their names without schema
	names  []pgx.Identifier
	log    *slog.Logger

	// Constant, but for tests.
	Relied  time.Duration                                  // wakeRelied
	silence time.Duration                                  // walSilence
	Rest    func(ctx context.Context, pause time.Duration) // between attempts to connect

	woken   chan struct{}
	asks    chan ask
	ready   atomic.Bool // the connection listens, and asks are answered
	follows atomic.Bool // the WAL is followed

	mu     sync.Mutex
	cancel context.CancelFunc // ends the connections; nil before they have begun
	ended  sync.WaitGroup
}

// ask is a request of the reader to the listening connection. A nil answer: to
// be awake.
type ask struct{ answer chan<- adapters.Sleep }

// New returns the waker of a reader of these tables.
func New(w Mode, pool *pgxpool.Pool, log *slog.Logger, tables ...pgx.Identifier) *Waker {
	out := &Waker{mode: cmp.Or(w, Poll), pool: pool, log: log, Relied: wakeRelied, silence: walSilence, Rest: pauseFor, woken: make(chan struct{}, 1), asks: make(chan ask)}
	for _, t := range tables {
		out.tables = append(out.tables, t[len(t)-1])
		out.names = append(out.names, t)
	}
	return out
}

// Wake implements [adapters.Waker]. nil if the source only polls.
func (w *Waker) Wake() <-chan struct{} {
	if w.mode == Poll {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cancel == nil {
		var ctx context.Context
		ctx, w.cancel = context.WithCancel(context.Background())
		if w.mode != Replication {
			w.ended.Go(func() { w.listen(ctx) })
		}
		if w.mode != Notify {
			w.ended.Go(func() { w.follow(ctx) })
		}
	}
	return w.woken
}

// Follows implements [adapters.Waker].
func (w *Waker) Follows() bool { return w.follows.Load() }

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

// connection is one that wakes the reader until ctx ends or it breaks.
type connection interface {
	run(ctx context.Context) error
}

// listen keeps a connection listening until ctx ends; with [Auto] from when the tables have the trigger.
func (w *Waker) listen(ctx context.Context) {
	w.keep(ctx, "notifications", func(ctx context.Context) (connection, error) {
		if w.mode == Auto {
			if err := w.triggered(ctx); err != nil {
				return nil, err
			}
		}
		return w.connect(ctx)
	})
}

// follow keeps a connection until ctx ends on which the server sends its WAL.
func (w *Waker) follow(ctx context.Context) {
	w.keep(ctx, "commits", func(ctx context.Context) (connection, error) {
		s, err := openStream(ctx, w.pool, w.silence)
		return &follower{w, s}, err
	})
}

// keep makes a connection again when it breaks, until ctx ends. While there is none the reader polls. what is what it brings.
func (w *Waker) keep(ctx context.Context, what string, open func(context.Context) (connection, error)) {
	pause, failing, warned, said := wakeBackoff, false, time.Time{}, ""
	for ctx.Err() == nil {
		began := time.Now()
		c, err := open(ctx)
		if err == nil {
			if failing {
				w.log.InfoContext(ctx, what+" wake the reader again", "tables", w.tables)
			}
			failing, said = false, ""
			err = c.run(ctx)
		}
		if ctx.Err() != nil {
			return
		}
		if no, is := errors.AsType[*refused](err); is {
			w.postponed(ctx, what, no, &said)
			continue
		}
		if now := time.Now(); !failing && now.Sub(warned) > wakeWarned {
			failing, warned = true, now
			w.log.WarnContext(ctx, what+" do not wake the reader; new rows are found by polling until they do", "tables", w.tables, "error", err)
		}
		if time.Since(began) > wakeBackoffMax { // it has worked
			pause = wakeBackoff
		}
		w.Rest(ctx, pause)
		pause = min(2*pause, wakeBackoffMax)
	}
}

// postponed says once why there is no connection, and waits until it may be made again. With [Auto] it is nothing to mend: doctor says it.
// Much WAL is nothing to mend either.
func (w *Waker) postponed(ctx context.Context, what string, no *refused, said *string) {
	level, pause := slog.LevelWarn, wakeRefused
	if no.passes {
		pause = wakePassing
	}
	if w.mode == Auto || no == errBusy {
		level = slog.LevelDebug
	}
	if no.fix != *said { // figures in why may change
		*said = no.fix
		w.log.Log(ctx, level, what+" do not wake the reader; new rows are found by polling", "tables", w.tables, "error", no)
	}
	w.Rest(ctx, pause)
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
