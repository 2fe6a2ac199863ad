package middleware

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/outriderhq/outrider/adapters"
)

// turns are the messages that are in a [Dedupe]: of each event the one whose
// turn it is, and those that wait for it.
type turns struct {
	mu     sync.Mutex
	events map[adapters.EventRef]*sameEvent
}

// sameEvent are the messages of one event.
type sameEvent struct {
	current *caller
	waiting []*caller
}

// caller is a message that is in a Dedupe.
type caller struct {
	place   uint64             // on a lane
	cancel  context.CancelFunc // of its delivery; nil: it is never canceled
	maxWait time.Duration      // for its turn; 0: as long as the context lasts
	turn    chan bool          // receives once: true: another was delivered; false: it is this one's turn
}

var errWaited = errors.New("it is not done yet")

// enter returns when it is the message's turn, or with duplicate when another of its
// event was delivered meanwhile. An error says why it waits no longer; only the
// message whose turn it is calls leave.
func (f *turns) enter(ctx context.Context, event adapters.EventRef, me *caller) (duplicate bool, err error) {
	f.mu.Lock()
	t := f.events[event]
	if t == nil {
		if f.events == nil {
			f.events = map[adapters.EventRef]*sameEvent{}
		}
		f.events[event] = &sameEvent{current: me}
		f.mu.Unlock()
		return false, nil
	}
	t.waiting = append(t.waiting, me)
	if t.current.place > me.place && t.current.cancel != nil {
		t.current.cancel()
	}
	f.mu.Unlock()
	return f.wait(ctx, event, me)
}

func (f *turns) wait(ctx context.Context, event adapters.EventRef, me *caller) (duplicate bool, err error) {
	var late <-chan time.Time
	if me.maxWait > 0 {
		timer := time.NewTimer(me.maxWait)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case duplicate = <-me.turn:
		return duplicate, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-late:
		err = errWaited
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case duplicate = <-me.turn: // it came at the last moment
		return duplicate, nil
	default:
	}
	t := f.events[event] // there, because it is the turn of one of its messages
	t.waiting = slices.DeleteFunc(t.waiting, func(x *caller) bool { return x == me })
	return false, err
}

// leave ends the turn of a message. If it was delivered, those that wait are
// duplicates; otherwise the one with the lowest place is next.
func (f *turns) leave(event adapters.EventRef, delivered bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.events[event]
	if len(t.waiting) == 0 || delivered {
		for _, x := range t.waiting {
			x.turn <- true
		}
		delete(f.events, event)
		return
	}
	next := 0
	for i, x := range t.waiting {
		if x.place < t.waiting[next].place {
			next = i
		}
	}
	t.current = t.waiting[next]
	t.waiting = slices.Delete(t.waiting, next, next+1)
	t.current.turn <- false
}
