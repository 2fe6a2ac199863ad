package middleware

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
)

// The defaults of [Dedupe].
const (
	DefaultWindow     = 24 * time.Hour
	DefaultRemembered = 100_000
)

// The patience of a [Dedupe].
const (
	// longestWait bounds how long a message of a lane waits for another of its id. After that it is released and comes again: the other may
	// wait for something that waits for it, such as a probe of their address.
	longestWait = time.Second

	// storePause is how soon a message comes again if the store did not answer.
	storePause = time.Second

	// recordPatience is how long a delivered message waits to be recorded.
	recordPatience = 10 * time.Second
	recordPause    = 200 * time.Millisecond
)

// reasonDuplicate is why duplicates are skipped, as the metrics show it.
const reasonDuplicate = "duplicate"

// Dedupe delivers each event id once per window: a message whose id (its UUID) was delivered before is skipped ([outbox.Skip], "duplicate"). It
// belongs outside of all layers that count or delay attempts. Messages without an id pass.
//
// An id is recorded after its message was delivered, never before: a message that failed, was filtered by middleware further in, or whose
// outcome is unknown (a panic) comes again and is delivered. The record is written before the message is settled, so a crash repeats only
// messages that were delivered and not yet recorded.
//
// While a message is in flight, others with its id wait. If it was delivered they are skipped, if it failed the next of them goes. On a lane the
// message that entered the lanes first goes first ([outbox.Attempt], Place). One that entered later and is already in flight is cancelled, by its
// context, and comes again: it may wait at the gate for the very message that waits here for it. So later messages always wait for
// earlier ones, at the gate and here, and there is no deadlock. Two processes do not wait for each other; messages of one group are always in one
// process.
//
// If the store fails, nothing is attempted: the message is released on a lane, and elsewhere fails as [outbox.Unavailable], which an outer [Retry]
// retries. If a delivered message cannot be recorded for 10 s, that is logged, and a later duplicate of it will be delivered.
//
// Elsewhere than on a lane delivered means that the handler returned no error, and a duplicate ends as handled (nil).
//
// A Dedupe must not be copied after its first use.
type Dedupe struct {
	// Window is how long a delivered id is remembered. 0: 24 h.
	Window time.Duration

	// Store remembers them. Concurrent calls are gathered, see [Coalesce]. Nil: this process's memory, which forgets with its end.
	Store adapters.DedupeStore

	// Max is the most ids that memory holds, about 200 bytes each; the oldest
	// are forgotten first, which is logged once. 0: 100,000. Unused with a Store.
	Max int

	// Scope is that within which an id means one event. Empty: the route, or outside of lanes the name of the Watermill handler.
	Scope string

	// Logger logs when the store fails and recovers. Nil: slog.Default().
	Logger *slog.Logger

	once    sync.Once
	store   adapters.DedupeStore
	turns   turns
	failing atomic.Bool
}

// Validate returns an error that names every wrong field and what it may be.
func (d *Dedupe) Validate() error {
	var errs []error
	if d.Window < 0 {
		errs = append(errs, fmt.Errorf("dedupe: window is %v: give a duration above 0", d.Window))
	}
	if d.Max < 0 {
		errs = append(errs, fmt.Errorf("dedupe: max is %d: give 1 or more", d.Max))
	}
	if d.Max > 0 && d.Store != nil {
		errs = append(errs, errors.New("dedupe: max is set, but a store as well: max is for memory, leave one of them out"))
	}
	return errors.Join(errs...)
}

// Middleware returns the handler with the look for duplicates around it.
func (d *Dedupe) Middleware(h message.HandlerFunc) message.HandlerFunc {
	d.once.Do(d.start)
	return func(msg *message.Message) ([]*message.Message, error) {
		if msg.UUID == "" {
			return h(msg)
		}
		return d.handle(msg, h)
	}
}

func (d *Dedupe) start() {
	d.Window = positive(d.Window, DefaultWindow)
	d.Max = positive(d.Max, DefaultRemembered)
	if d.Logger == nil {
		d.Logger = slog.Default()
	}
	if d.Store != nil {
		d.store = Coalesce(d.Store)
		return
	}
	d.store = DedupeMemory(d.Max, d.Logger)
}

// DedupeMemory returns a store that keeps up to a limit of ids in memory, as a [Dedupe] without a store does. It can outlive the middleware. Nil
// logger: slog.Default().
func DedupeMemory(limit int, logger *slog.Logger) adapters.DedupeStore {
	if logger == nil {
		logger = slog.Default()
	}
	return newMemory(limit, func() {
		logger.Warn("dedupe: more ids than memory holds: the oldest are forgotten before their window ends; "+
			"raise max, or use a store", "max", limit)
	})
}

// handle waits for the message's turn, asks the store, and calls the handler.
func (d *Dedupe) handle(msg *message.Message, h message.HandlerFunc) (produced []*message.Message, err error) {
	parent := msg.Context()
	attempt, onLane := outbox.AttemptOf(parent)
	event, ctx := d.eventOf(msg, attempt), parent
	me := &caller{place: attempt.Place, turn: make(chan bool, 1)}
	if onLane {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(parent)
		defer cancel()
		me.cancel, me.maxWait = cancel, longestWait
	}
	duplicate, err := d.turns.enter(parent, event, me)
	if err != nil {
		return nil, outbox.Released(fmt.Errorf("dedupe: another message with the id %s is on its way: %w", msg.UUID, err))
	}
	if duplicate {
		return nil, skipDuplicate(onLane)
	}
	delivered := false
	defer func() { d.turns.end(event, delivered) }()
	if delivered, err = d.seen(ctx, event); err != nil {
		return nil, notAsked(ctx, onLane, err)
	}
	if delivered {
		return nil, skipDuplicate(onLane)
	}
	msg.SetContext(ctx)
	returned := false
	defer func() { // also when the handler panics
		msg.SetContext(parent)
		var known bool
		if delivered, known = outbox.DeliveredOf(parent); !known {
			delivered = returned && err == nil
		}
		if delivered {
			d.record(parent, event)
		}
	}()
	produced, err = h(msg)
	returned = true
	return produced, err
}

func (d *Dedupe) eventOf(msg *message.Message, attempt outbox.Attempt) adapters.EventRef {
	scope := d.Scope
	if scope == "" {
		scope = attempt.Route
	}
	if scope == "" {
		scope = message.HandlerNameFromCtx(msg.Context())
	}
	return adapters.EventRef{Route: scope, ID: msg.UUID}
}

// skipDuplicate returns the error of a duplicate: nil outside of a lane, where an error would bring it back forever.
func skipDuplicate(onLane bool) error {
	if onLane {
		return outbox.Skip(reasonDuplicate)
	}
	return nil
}

// notAsked returns the error of a message about which the store gave no answer.
func notAsked(ctx context.Context, onLane bool, err error) error {
	err = fmt.Errorf("dedupe: not attempted, because the store cannot tell whether it is a duplicate: %w", err)
	switch {
	case ctx.Err() != nil:
		return outbox.Released(err)
	case onLane:
		return &outbox.Error{Kind: outbox.KindReleased, Err: err, RetryAfter: storePause}
	}
	return outbox.Unavailable(err, storePause)
}

func (d *Dedupe) seen(ctx context.Context, event adapters.EventRef) (bool, error) {
	seen, err := d.store.Seen(ctx, []adapters.EventRef{event})
	if ctx.Err() == nil {
		d.report(err)
	}
	return err == nil && seen[0], err
}

// record records a delivery. The message's context does not end it: deliveries during a shutdown are recorded too.
func (d *Dedupe) record(ctx context.Context, event adapters.EventRef) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordPatience)
	defer cancel()
	for {
		err := d.store.Record(ctx, []adapters.SeenEvent{{EventRef: event, Keep: d.Window}})
		if d.report(err); err == nil || ctx.Err() != nil {
			return
		}
		sleep(ctx, recordPause)
	}
}

// report logs when the store begins to fail, and when it works again.
func (d *Dedupe) report(err error) {
	switch {
	case err != nil && d.failing.CompareAndSwap(false, true):
		d.Logger.Warn("dedupe: the store fails: messages wait, and what is delivered may come twice", "error", err)
	case err == nil && d.failing.Load() && d.failing.CompareAndSwap(true, false):
		d.Logger.Info("dedupe: the store works again")
	}
}
