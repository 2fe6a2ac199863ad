package lane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/router/internal/health"
	"github.com/outriderhq/outrider/router/internal/signal"
)

// poison sends a route's dead messages to its poison destination. A message whose attempts have ended is sent there first and is dead after:
// until the destination has confirmed, the message keeps its place, its group waits behind it, and no attempts are counted. Short pauses are
// spent in memory, longer ones in the parking, where the row keeps the death: after a restart the message is sent to the poison
// destination, not attempted again.
type poison struct {
	route *Route
	slots chan struct{} // bounds the requests in flight

	mu      sync.Mutex
	fails   int       // since the last success
	until   time.Time // nothing is sent before, when there were fails
	probing bool      // one message tries whether it works again
}

// longestPoisonPause is the longest pause between two sends of one message.
const longestPoisonPause = 30 * time.Second

func newPoison(r *Route) *poison {
	if r.Poison == nil {
		return nil
	}
	n := r.Poison.Ordering().MaxRequests
	if n <= 0 {
		n = adapters.DefaultMaxRequests
	}
	return &poison{route: r, slots: make(chan struct{}, n)}
}

// death is the verdict that ended a message which is on its way to the poison destination.
type death struct {
	outbox.Death
	Hold bool  `json:"hold"` // the group is held afterwards
	err  error // nil when it was read from a parked row
}

// Error implements error: why the message is dead.
func (d *death) Error() string { return d.Death.Error }

// Unwrap returns the verdict, and so why the message is dead.
func (d *death) Unwrap() error {
	return &outbox.Decision{Verdict: d.verdict(d.cause())}
}

func (d *death) cause() error {
	if d.err != nil {
		return d.err
	}
	return errors.New(d.Death.Error)
}

func (d *death) verdict(err error) outbox.Verdict {
	return outbox.Verdict{Outcome: outbox.OutcomeDead, Err: err, Hold: d.Hold}
}

// MetaDeath keeps the death in the metadata of a parked row.
const MetaDeath = outbox.HeaderPrefix + "death"

// mark returns metadata for a parked row, with the death or, for nil, without the death of another route that a message may bring.
func (d *death) mark(meta map[string]string) map[string]string {
	if _, foreign := meta[MetaDeath]; d == nil && !foreign {
		return meta
	}
	meta = maps.Clone(meta)
	delete(meta, MetaDeath)
	if d != nil {
		text, _ := json.Marshal(d) // texts, numbers and a time cannot fail to encode
		meta[MetaDeath] = string(text)
	}
	return meta
}

// refused reports whether the poison destination will never take the message.
func refused(err error) bool {
	kind := outbox.KindOf(err)
	return kind == outbox.KindPermanent || kind == outbox.KindGone
}

var errWaits = errors.New("it failed a moment ago and is being probed")

// send sends one message; after an error the next try follows after the pause. While the destination fails, one message at a time is sent,
// as a probe.
func (p *poison) send(ctx context.Context, it *Item) (pause time.Duration, err error) {
	age := time.Since(it.death.At)
	pause = min(max(age, health.FirstProbe), longestPoisonPause) // so it doubles from one try to the next
	pause = pause*3/4 + rand.N(pause/2)                          //nolint:gosec // spreads load, guards nothing
	if err := p.enter(ctx); err != nil {
		return pause, p.failure(err)
	}
	defer func() { <-p.slots }()
	wait, probe := p.admit()
	if wait > 0 {
		return max(pause, wait), p.failure(errWaits)
	}
	if !p.route.Lease.MaySend() {
		if probe {
			p.probed()
		}
		return ReleaseDelay, p.failure(errors.New("little of the lease is left"))
	}
	err = p.deliver(ctx, it)
	if p.concluded(err, probe) {
		p.route.readmit()
	}
	if err == nil {
		return 0, nil
	}
	return pause, p.failure(err)
}

var errBusy = errors.New("all the requests that it may have at once last for long")

// enter waits for one of the requests in flight to end, though not for long: messages that wait here take room in their lane.
func (p *poison) enter(ctx context.Context) error {
	timer := signal.After(ShortDelay)
	defer timer.Stop()
	select {
	case p.slots <- struct{}{}:
		return nil
	case <-timer.C:
		return errBusy
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *poison) failure(err error) error {
	return fmt.Errorf("poison destination %q does not take it: %w", p.route.PoisonName, err)
}

// admit returns how long nothing may be sent; 0: send now, perhaps as the probe.
func (p *poison) admit() (wait time.Duration, probe bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fails == 0 {
		return 0, false
	}
	if wait := time.Until(p.until); wait > 0 || p.probing {
		return max(wait, ReleaseDelay), false
	}
	p.probing = true
	return 0, true
}

// probed ends a probe without result.
func (p *poison) probed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.probing = false
}

// concluded takes the outcome of a send; it reports whether the destination is back.
func (p *poison) concluded(err error, probe bool) (back bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.probing = p.probing && !probe
	switch {
	case err == nil || refused(err):
		if back = p.fails > 0; back {
			p.route.Log().Info("poison destination is back", "destination", p.route.PoisonName)
		}
		p.fails = 0
	case outbox.KindOf(err) == outbox.KindReleased: // called off by us
	case p.fails > 0 && !probe: // sent before it was known to fail
	default:
		if p.fails == 0 {
			p.route.Log().Warn("poison destination fails: dead messages keep their places, and their groups wait, until it takes them",
				"destination", p.route.PoisonName, "error", err)
		}
		p.until = time.Now().Add(health.Pause(p.fails))
		p.fails++
	}
	return back
}

func (p *poison) works() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fails == 0
}

// deliver sends one message and returns nil once it is confirmed.
func (p *poison) deliver(ctx context.Context, it *Item) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = adapters.Recovered("it", r)
		}
	}()
	msg := it.newMessage()
	it.death.Mark(msg.Metadata)
	address, err := p.route.Poison.Address(msg)
	if err != nil {
		return outbox.Permanent(fmt.Errorf("address: %w", err))
	}
	ctx, cancel := context.WithTimeout(ctx, p.route.SendTimeout)
	defer cancel()
	errs := p.route.Poison.Deliver(ctx, address, []*message.Message{msg})
	switch {
	case errs == nil:
		return nil
	case len(errs) != 1:
		return fmt.Errorf("it returned %d results for 1 message: outcome unknown", len(errs))
	case errs[0] != nil && outbox.KindOf(errs[0]) == outbox.KindSkip:
		return nil // it has the message already
	}
	return errs[0]
}
