package lane

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
)

var errInjected = errors.New("injected")

// recorder is a destination that takes everything.
type recorder struct {
	mu  sync.Mutex
	ids []string
}

func (r *recorder) Address(*message.Message) (string, error) { return "main", nil }
func (r *recorder) Ordering() adapters.Ordering {
	return adapters.Ordering{Unit: adapters.UnitGroup, MaxMessages: 10}
}
func (r *recorder) Close() error { return nil }

func (r *recorder) Deliver(_ context.Context, _ string, batch []*message.Message) []error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, msg := range batch {
		r.ids = append(r.ids, msg.UUID)
	}
	return nil
}

func (r *recorder) received() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string{}, r.ids...)
}

// aloneFeeder and aloneLease are those of a lane that nobody feeds and nobody else wants.
type (
	aloneFeeder struct{}
	aloneLease  struct{}
)

func (aloneFeeder) Origin(*Session) Origin                           { return ByCursor{} }
func (aloneFeeder) RoomFreed()                                       {}
func (aloneFeeder) Wake()                                            {}
func (aloneFeeder) AddressBack()                                     {}
func (aloneFeeder) GiveUp(context.Context, []adapters.LaneRef) error { return nil }

func (aloneLease) MaySend() bool                                      { return true }
func (aloneLease) StillOwned(context.Context, *Session) (bool, error) { return true, nil }
func (aloneLease) Lost(*Session)                                      {}
func (aloneLease) RememberGone(string, error)                         {}

// The message that is to be the next probe leaves its lane at that moment: another
// one that is held takes its place.
func TestG13_AnAddressIsProbedThoughTheProbeLeaves(t *testing.T) {
	for name, first := range map[string]bool{"chains": false, "deliver first": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dest := &recorder{}
				s, stop := alone(t, Config{DeliverFirst: first, Destination: dest, Window: 64})
				rt := s.Route
				gone := &Item{Session: s, key: "gone", phase: parked, content: &content{id: "gone"}}
				stays := &Item{Session: s, key: "stays", phase: held, content: &content{id: "stays"}}
				for _, it := range []*Item{gone, stays} {
					it.Owner = it
				}
				s.mu.Lock()
				s.gate.Enter(&stays.Ticket, stays.key)
				s.progress.extra++
				rt.Health.Unavailable("main", gone, time.Time{}, outbox.Verdict{Err: errInjected}, false)
				rt.Health.Unavailable("main", stays, time.Time{}, outbox.Verdict{Err: errInjected}, false)
				s.mu.Unlock()
				time.Sleep(time.Minute)
				if got := dest.received(); len(got) != 1 || got[0] != "stays" {
					t.Errorf("delivered %q within a minute, want the message that stays", got)
				}
				stop()
			})
		})
	}
}

// hanging lets every request wait for half a minute, and then fails it.
type hanging struct{ recorder }

func (h *hanging) Deliver(_ context.Context, _ string, batch []*message.Message) []error {
	time.Sleep(30 * time.Second)
	errs := make([]error, len(batch))
	for i := range errs {
		errs[i] = outbox.Transient(errInjected, 0)
	}
	return errs
}

// An outage begins with the first attempt that failed, and not when it was found out, or at a later failure.
func TestG10_AnOutageBeginsWithTheFirstAttemptThatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, stop := alone(t, Config{Destination: &hanging{}, DeliverFirst: true, Window: 64})
		time.Sleep(time.Second)
		began := time.Now()
		arrive(s, 1, 2, 3)
		for range 10 {
			time.Sleep(31 * time.Second)
			status := s.Route.Health.Status(textOf)
			if len(status) != 1 || !status[0].Since.Equal(began) {
				t.Fatalf("after %v: %+v, want an address that is down since the beginning", time.Since(began), status)
			}
		}
		stop()
	})
}
