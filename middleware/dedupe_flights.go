package middleware

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/outriderhq/outrider/adapters"
)

// flights are the messages that are in a [Dedupe]: of each event one that
// flies, and those that wait for it.
type flights struct {
	mu     sync.Mutex
	events map[adapters.EventRef]*sameEvent
}

// sameEvent are the messages of one event.
type sameEvent struct {
	current *flight
	waiting []*flight
}

// flight is one message's way through a Dedupe.
type flight struct {
	place    uint64             // on a lane
	callOff  context.CancelFunc // nil: it is never called off
	patience time.Duration      // of waiting; 0: as long as the context lasts
	turn     chan bool          // receives once: true: another was delivered; false: it flies
}

var errPatience = errors.New("it is not done yet")

// enter returns when the message may fly, or with duplicate when another of its
// event was delivered meanwhile. An error says why it waits no longer; only the
// message that flies calls leave.
func (f *flights) enter(ctx context.Context, event adapters.EventRef, me *flight) (duplicate bool, err error) {
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
	if t.current.place > me.place && t.current.callOff != nil {
		t.current.callOff()
	}
	f.mu.Unlock()
	return f.wait(ctx, event, me)
}

func (f *flights) wait(ctx context.Context, event adapters.EventRef, me *flight) (duplicate bool, err error) {
	var late <-chan time.Time
	if me.patience > 0 {
		timer := time.NewTimer(me.patience)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case duplicate = <-me.turn:
		return duplicate, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-late:
		err = errPatience
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case duplicate = <-me.turn: // it came at the last moment
		return duplicate, nil
	default:
	}
	t := f.events[event] // there, because one of its messages flies
	t.waiting = slices.DeleteFunc(t.waiting, func(x *flight) bool { return x == me })
	return false, err
}

// leave ends the flight of the message that flies. If it was delivered, those that wait are
// duplicates; otherwise the one with the lowest place is next.
func (f *flights) leave(event adapters.EventRef, delivered bool) {
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
