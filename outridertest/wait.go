package outridertest

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/log"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/outbox"
)

// interval is the interval between checks of conditions that nothing signals.
const interval = time.Millisecond

// Delivered waits until everything that was committed before the call is delivered, skipped or dead, and returns all that was
// delivered since [Start], in the order of delivery. It fails the test when that takes too long.
//
// It does not wait for later commits of other goroutines: use [Kit.Wait].
func (k *Kit) Delivered() []outbox.Envelope {
	k.tb.Helper()
	var committed int64
	err := k.DB.QueryRowContext(k.tb.Context(), "SELECT count(*) FROM "+outbox.DefaultTable).Scan(&committed)
	k.must("count the messages", err)
	k.until(func() (string, bool) {
		done := k.concluded()
		return fmt.Sprintf("%d of %d messages are delivered, skipped or dead", done, committed), done >= committed
	})
	return k.recorder.taken()
}

// Wait waits until at least n messages were delivered since [Start], from any publisher, and returns all
// delivered messages. It fails the test if that takes too long.
func (k *Kit) Wait(n int) []outbox.Envelope {
	k.tb.Helper()
	var got []outbox.Envelope
	k.until(func() (string, bool) {
		got = k.recorder.taken()
		return fmt.Sprintf("%d messages were delivered, %d are waited for", len(got), n), len(got) >= n
	})
	return got
}

// Dead waits like [Kit.Delivered] and returns the messages that are dead, each with its last error.
func (k *Kit) Dead() []adapters.Parked {
	k.tb.Helper()
	k.Delivered()
	op, err := operate.NewOperator(k.tb.Context(), k.cfg)
	k.must("read dead messages", err)
	defer func() { k.must("read dead messages", op.Close()) }()
	var dead []adapters.Parked
	k.until(func() (string, bool) { // until they are written down
		found, err := op.ParkedWhole(k.tb.Context(), adapters.ParkedFilter{Route: Route, Status: adapters.ParkedDead}, math.MaxInt64)
		k.must("read dead messages", err)
		dead = dead[:0]
		for _, p := range found {
			dead = append(dead, p.Parked)
		}
		var want int64
		for _, s := range k.relay.Stats() {
			want += s.Dead
		}
		return fmt.Sprintf("%d of %d dead messages are written down", len(dead), want), int64(len(dead)) >= want
	})
	return dead
}

// concluded returns the number of messages that are delivered, skipped or dead.
func (k *Kit) concluded() (n int64) {
	for _, s := range k.relay.Stats() {
		n += s.Delivered + s.Dead
		for _, skipped := range s.Skipped {
			n += skipped
		}
	}
	return n
}

// until waits for a condition, which also describes its progress.
func (k *Kit) until(holds func() (progress string, ok bool)) {
	k.tb.Helper()
	k.relay.Wake(source)
	timeout := time.NewTimer(k.timeout)
	defer timeout.Stop()
	for {
		changed := k.recorder.change()
		progress, ok := holds()
		if ok {
			return
		}
		pause := time.NewTimer(interval)
		select {
		case <-changed:
		case <-pause.C:
		case <-k.ended:
			k.tb.Fatalf("outridertest: the relay has ended: %v", k.err)
		case <-timeout.C:
			k.tb.Fatalf("outridertest: after %v %s", k.timeout, progress)
		}
		pause.Stop()
	}
}

// recorder is a destination that records the messages that another one has accepted.
type recorder struct {
	adapters.Destination

	mu      sync.Mutex
	got     []outbox.Envelope
	changed chan struct{} // closed by the next delivery
}

// Deliver implements [adapters.Destination].
func (r *recorder) Deliver(ctx context.Context, address string, batch []*message.Message) []error {
	errs := r.Destination.Deliver(ctx, address, batch)
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, msg := range batch {
		if errs == nil || errs[i] == nil {
			e, _ := outbox.EnvelopeOf(msg) // a row of the own table has no metadata that cannot be read
			r.got = append(r.got, e)
		}
	}
	close(r.changed)
	r.changed = make(chan struct{})
	return errs
}

func (r *recorder) taken() []outbox.Envelope {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]outbox.Envelope(nil), r.got...)
}

func (r *recorder) change() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changed
}

// nowhere accepts everything.
func nowhere() (adapters.Destination, error) { return log.Discard(), nil }
