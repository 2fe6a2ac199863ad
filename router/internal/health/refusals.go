package health

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outriderhq/outrider/outbox"
)

// Refusals tell an address that takes nothing from one that does not take a message: both answer 404 or 503. A group is at fault itself when
// its messages are refused again after a message of another group, which was sent after the first refusal, was delivered. Until then
// the address is at fault, and is probed. The zero value is ready.
type Refusals struct {
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

// maxRefused bounds the groups of an address that are remembered. Refusals of further groups are the address's.
const maxRefused = 64

// surelyGone is how many answers to one group do not show yet that the address is gone for all groups. An answer to a second group does.
const surelyGone = 3

// longestRefusal is the longest pause of a group that an address asks to wait, while messages of other groups are delivered.
const longestRefusal = time.Minute

// None reports whether no address has refused anything lately.
func (f *Refusals) None() bool { return f.refused.Load() == 0 }

// Judge returns what each message of a batch gets for the result of its delivery, which began at a time; errs is nil
// when all of it was delivered. The identities are those of the messages; see [Message].
func (f *Refusals) Judge(address string, identities []string, began time.Time, errs []error) []error {
	f.mu.Lock()
	defer f.mu.Unlock()
	verdicts := slices.Clone(errs)
	for i, id := range identities {
		if errs == nil {
			f.deliver(address, id, began)
		} else {
			verdicts[i] = f.one(address, id, began, errs[i])
		}
	}
	f.refused.Store(int32(len(f.addresses)))
	return verdicts
}

// one judges one message's error.
func (f *Refusals) one(address, id string, began time.Time, err error) error {
	if err == nil {
		f.deliver(address, id, began)
		return nil
	}
	e, is := errors.AsType[*outbox.Error](err)
	if !is || !e.Answered || e.Kind != outbox.KindUnavailable && e.Kind != outbox.KindGone {
		return err
	}
	a := f.addresses[address]
	if a == nil {
		if f.addresses == nil {
			f.addresses = map[string]*refuser{}
		}
		a = &refuser{groups: map[string]refusal{}}
		f.addresses[address] = a
	}
	return a.refuse(id, e, err)
}

func (f *Refusals) deliver(address, id string, began time.Time) {
	a := f.addresses[address]
	if a == nil {
		return
	}
	delete(a.groups, id)
	if began.After(a.delivered) {
		a.delivered, a.gone, a.by = began, 0, ""
	}
	if len(a.groups) == 0 {
		delete(f.addresses, address)
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
	case own && e.RetryAfter > 0: // it asks for time; attempts do not replace that
		return &outbox.Error{Kind: outbox.KindReleased, Err: e.Err, RetryAfter: max(e.RetryAfter, min(time.Second<<min(last.times, 10), longestRefusal))}
	case own:
		return &outbox.Error{Kind: outbox.KindTransient, Err: e.Err, Code: e.Code, Answered: true}
	case e.Kind == outbox.KindGone && a.gone < surelyGone && (a.by == "" || a.by == id): // the probes show whether it is gone for all groups
		a.gone, a.by = a.gone+1, id
		return &outbox.Error{Kind: outbox.KindUnavailable, Err: e.Err, Answered: true}
	}
	return err
}
