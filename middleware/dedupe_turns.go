package middleware

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/outriderhq/outrider/adapters"
)

// turns has the messages that are in a [Dedupe]: of each event the one whose turn it is, and those that wait for it.
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

// enter returns when it is the message's turn, or with duplicate when another of its event was delivered meanwhile. After an error it does not
// wait any more. Only the message whose turn it is calls end.
func (t *turns) enter(ctx context.Context, event adapters.EventRef, me *caller) (duplicate bool, err error) {
	t.mu.Lock()
	same := t.events[event]
	if same == nil {
		if t.events == nil {
			t.events = map[adapters.EventRef]*sameEvent{}
		}
		t.events[event] = &sameEvent{current: me}
		t.mu.Unlock()
		return false, nil
	}
	same.waiting = append(same.waiting, me)
	if same.current.place > me.place && same.current.cancel != nil {
		same.current.cancel()
	}
	t.mu.Unlock()
	return t.wait(ctx, event, me)
}

func (t *turns) wait(ctx context.Context, event adapters.EventRef, me *caller) (duplicate bool, err error) {
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
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case duplicate = <-me.turn: // it came at the last moment
		return duplicate, nil
	default:
	}
	same := t.events[event] // there, because it is the turn of one of its messages
	same.waiting = slices.DeleteFunc(same.waiting, func(x *caller) bool { return x == me })
	return false, err
}

// end ends the turn of a message. If it was delivered, those that wait are duplicates; otherwise the one with the lowest place is next.
func (t *turns) end(event adapters.EventRef, delivered bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	same := t.events[event]
	if len(same.waiting) == 0 || delivered {
		for _, x := range same.waiting {
			x.turn <- true
		}
		delete(t.events, event)
		return
	}
	next := 0
	for i, x := range same.waiting {
		if x.place < same.waiting[next].place {
			next = i
		}
	}
	same.current = same.waiting[next]
	same.waiting = slices.Delete(same.waiting, next, next+1)
	same.current.turn <- false
}
