package lane

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outriderhq/outrider/handlers"
	"github.com/outriderhq/outrider/outbox"
)

// refusals tell an address that takes nothing from one that does not take a message: both answer 404 or 503. A group is at fault itself when
// its messages are refused again after a message of another one, which was sent after the first refusal, was delivered. Until then
// the address is, and is probed.
type refusals struct {
	refused atomic.Int32 // len(addresses): the happy path takes no lock

	mu        sync.Mutex
	addresses map[string]*refuser
}

// refuser is an address that has refused messages of groups which it has not taken since.
type refuser struct {
	groups    map[string]refusal // by identity
	delivered time.Time          // when the last delivery began that succeeded
	gone      int                // times in a row that it answered so
	by        string             // to this group
}

type refusal struct {
	at    time.Time
	times int // since it is the group's own
}

// maxRefused bounds the groups of an address that are remembered. The others' refusals are the address's.
const maxRefused = 64

// surelyGone is how many answers to one group do not say yet that the address is gone for all. Another group's says so at once.
const surelyGone = 3

// longestRefusal is the longest pause of a group that an address asks to wait, while others are delivered.
const longestRefusal = time.Minute

// judge is called with the outcome of each delivery, see [handlers.GateConfig].
func (f *refusals) judge(address string, tickets []*handlers.Ticket, began time.Time, errs []error) []error {
	if errs == nil && f.refused.Load() == 0 {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	verdicts := slices.Clone(errs)
	for i, t := range tickets {
		var err error
		if errs != nil {
			err = errs[i]
		}
		if err = f.one(address, t, began, err); errs != nil {
			verdicts[i] = err
		}
	}
	f.refused.Store(int32(len(f.addresses)))
	return verdicts
}

// one judges one message's error.
func (f *refusals) one(address string, t *handlers.Ticket, began time.Time, err error) error {
	a, id := f.addresses[address], owner(t).identity()
	if err == nil {
		if a != nil {
			a.deliver(id, began)
			if len(a.groups) == 0 {
				delete(f.addresses, address)
			}
		}
		return nil
	}
	e, is := errors.AsType[*outbox.Error](err)
	if !is || !e.Answered || e.Kind != outbox.KindUnavailable && e.Kind != outbox.KindGone {
		return err
	}
	if a == nil {
		a = &refuser{groups: map[string]refusal{}}
		f.addresses[address] = a
	}
	return a.refuse(id, e, err)
}

func (a *refuser) deliver(id string, began time.Time) {
	delete(a.groups, id)
	if began.After(a.delivered) {
		a.delivered, a.gone, a.by = began, 0, ""
	}
}

func (a *refuser) refuse(id string, e *outbox.Error, err error) error {
	last, known := a.groups[id]
	own := known && a.delivered.After(last.at)
	if own {
		last.times++
	}
	last.at = time.Now()
	if known || len(a.groups) < maxRefused {
		a.groups[id] = last
	}
	switch {
	case own && e.RetryAfter > 0: // it asks for time, which no number of attempts replaces
		return &outbox.Error{Kind: outbox.KindReleased, Err: e.Err, RetryAfter: max(e.RetryAfter, min(time.Second<<min(last.times, 10), longestRefusal))}
	case own:
		return &outbox.Error{Kind: outbox.KindTransient, Err: e.Err, Code: e.Code, Answered: true}
	case e.Kind == outbox.KindGone && a.gone < surelyGone && (a.by == "" || a.by == id): // the probes tell whether it is for all
		a.gone, a.by = a.gone+1, id
		return &outbox.Error{Kind: outbox.KindUnavailable, Err: e.Err, Answered: true}
	}
	return err
}
