package lane

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/router/internal/memory"
	"github.com/outriderhq/outrider/router/internal/settling"
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

func (aloneFeeder) Origin(*Session) Origin       { return ByCursor{} }
func (aloneFeeder) RoomFreed()                   {}
func (aloneFeeder) Wake()                        {}
func (aloneFeeder) AddressBack()                 {}
func (aloneFeeder) GiveUp(context.Context) error { return nil }

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
				dest, log := &recorder{}, slog.New(slog.DiscardHandler)
				shared := &Shared{Logger: log, Redact: func(a string) string { return a }, Budget: &memory.Budget{Limit: 1 << 20, Wake: func() {}},
					Patience: time.Second, Settlers: func(s adapters.StateStore) *settling.Settler { return settling.New(s, log, time.Second, time.Second) }}
				rt := NewRoute(Config{Name: "orders", DeliverFirst: first, Destination: dest, Order: adapters.OrderGroup, Window: 64, Attempts: 10,
					SendTimeout: time.Minute}, shared)
				rt.Connect(aloneFeeder{}, aloneLease{})
				wm, done, err := StartWatermill([]*Route{rt})
				if err != nil {
					t.Fatal(err)
				}
				s := NewSession(rt.Lanes[3], adapters.Table{}, []adapters.LaneState{{LaneRef: adapters.LaneRef{Route: "orders", Slot: 3}, NextSeq: 1}}, nil)
				s.Start()
				gone := &Item{Session: s, key: "gone", phase: parked, record: &record{id: "gone"}}
				stays := &Item{Session: s, key: "stays", phase: held, record: &record{id: "stays"}}
				for _, it := range []*Item{gone, stays} {
					it.Owner = it
				}
				s.mu.Lock()
				s.gate.Enter(&stays.Ticket, stays.key)
				s.extra++
				rt.health.unavailable("main", gone, outbox.Verdict{Err: errInjected}, false)
				rt.health.unavailable("main", stays, outbox.Verdict{Err: errInjected}, false)
				s.mu.Unlock()
				time.Sleep(time.Minute)
				if got := dest.received(); len(got) != 1 || got[0] != "stays" {
					t.Errorf("delivered %q within a minute, want the message that stays", got)
				}
				s.Stop(context.Background())
				rt.StopProbing()
				rt.Close()
				if err := errors.Join(wm.Close(), <-done); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
