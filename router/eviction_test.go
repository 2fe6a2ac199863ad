package router

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/router/internal/lane"
	"github.com/outriderhq/outrider/router/internal/signal"
)

// hanging is a fault: messages of these groups wait until release is called,
// everything else is taken at once.
type hanging struct {
	groups  []string
	release chan struct{}
	err     error // while not released; nil: hang
}

func newHanging(err error, groups ...string) *hanging {
	return &hanging{groups: groups, release: make(chan struct{}), err: err}
}

func (h *hanging) fault(_ string, msg *message.Message) error {
	if !slices.Contains(h.groups, msg.Metadata[outbox.MetaGroup]) {
		return nil
	}
	if h.err == nil {
		<-h.release
		return nil
	}
	select {
	case <-h.release:
		return nil
	default:
		return h.err
	}
}

// One message of a lane does not move: 10,000 of other groups of the same lane
// arrive, and afterwards its own group goes on in order.
func TestG6_OneBlockedGroup(t *testing.T) {
	for name, tt := range map[string]struct {
		ordering  adapters.Ordering
		err       error
		followers int
	}{
		"hanging, no followers":     {templated, nil, 0},
		"hanging, many followers":   {templated, nil, 300},
		"hanging, static":           {adapters.Ordering{MaxMessages: 10, MaxRequests: 1000, Static: true}, nil, 10},
		"unavailable, no followers": {templated, outbox.Unavailable(errInjected, 0), 0},
		"unavailable, followers":    {templated, outbox.Unavailable(errInjected, 0), 300},
		"poisoned":                  {templated, errInjected, 20},
		"later":                     {templated, outbox.Transient(errInjected, time.Minute), 20},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, tt.ordering, func(r *rig) {
				names := sameLane(21)
				h := newHanging(tt.err, names[0])
				r.dest.setFail(h.fault)
				var want []string
				for i := range tt.followers + 1 {
					want = append(want, fmt.Sprintf("slow-%d", i))
					r.addTo("slow", names[0], want[i])
				}
				n := testenv.Size(2000, 10_000)
				if name == "hanging, many followers" || name == "poisoned" { // what G6 promises
					n = 10_000
				}
				for i := range n {
					r.addTo("fast", names[1+i%20], fmt.Sprint("m", i))
				}
				r.start(r.route(func(rt *Route) {
					rt.Window, rt.Attempts = 128, 1000000
					rt.SendTimeout = time.Hour
					rt.Middleware = nil
				}))
				r.await(n)
				time.Sleep(5 * time.Second)
				if got := r.dest.count(); got != n {
					t.Errorf("%d have arrived, want %d", got, n)
				}
				for _, p := range r.parked() {
					poisoned := tt.err == errInjected //nolint:errorlint // the other cases wrap the same error
					if p.Status == adapters.ParkedWaiting && p.Attempts != 0 && !poisoned {
						t.Errorf("%s is waiting with %d attempts", p.ID, p.Attempts)
					}
				}
				close(h.release)
				r.await(n + len(want))
				r.stop()
				if got := r.dest.received()[names[0]]; !slices.Equal(got, want) {
					t.Errorf("the slow group: got %v, want %v", got, want)
				}
				r.wantParked()
			})
		})
	}
}

// A message without a group, or on a route without order, hangs, at the
// destination or as a dead one at the poison destination: 2,000 others of its lane
// arrive, and it does in the end.
func TestG6_G13_OneHangingMessageWithoutAGroup(t *testing.T) {
	for name, o := range map[string]adapters.Ordering{
		"templated": templated, "static": {MaxMessages: 10, MaxRequests: 1000, Static: true}, "wave": wave,
	} {
		for _, order := range []adapters.OrderMode{adapters.OrderGroup, adapters.OrderNone} {
			for _, dies := range []bool{false, true} {
				if o.Unit == adapters.UnitWave && !dies {
					continue // all of a wave waits for the same broker
				}
				t.Run(fmt.Sprintf("%s, order %s, dies %t", name, order, dies), func(t *testing.T) {
					inBubble(t, o, func(r *rig) { r.hangOne(order, dies) })
				})
			}
		}
	}
}

func (r *rig) hangOne(order adapters.OrderMode, dies bool) {
	const n = 2000
	release := make(chan struct{})
	hang := func(_ string, msg *message.Message) error {
		if msg.UUID == "slow" {
			limit := signal.After(2 * patience) // so that a test that fails ends
			defer limit.Stop()
			select {
			case <-release:
			case <-limit.C:
			}
		}
		return nil
	}
	dead, route := grave(r, func(rt *Route) { rt.Window, rt.SendTimeout, rt.Order = 100, time.Hour, order })
	arrived := n + 1
	if dies {
		r.dest.setFail(fatal("slow"))
		dead.setFail(hang)
		arrived = n
	} else {
		r.dest.setFail(hang)
	}
	slot := adapters.SlotOf("", "slow")
	r.addTo("slow", "", "slow")
	for i, left := 0, n; left > 0; i++ {
		if id := fmt.Sprint("m", i); adapters.SlotOf("", id) == slot {
			r.addTo("fast", "", id)
			left--
		}
	}
	r.start(route)
	r.await(n)
	close(release)
	r.await(arrived)
	r.until("it is settled", func() bool { return len(r.parked()) == len(dead.ids()) && dies == (len(dead.ids()) == 1) })
	r.stop()
}

// A head that hangs is stored when the lane fills up, so a restart that cuts it
// off finds it in the parking, before its followers.
func TestG1_G2_AHangingHeadSurvivesARestart(t *testing.T) {
	inBubble(t, templated, func(r *rig) {
		r.config.DrainTimeout = 2 * time.Second
		names := sameLane(2)
		h := newHanging(nil, names[0])
		cut := make(chan struct{})
		r.dest.setFail(func(_ string, msg *message.Message) error {
			if msg.Metadata[outbox.MetaGroup] != names[0] {
				return nil
			}
			select {
			case <-cut: // what a destination does when its context ends
				return outbox.Unavailable(errInjected, 0)
			case <-h.release:
				return nil
			}
		})
		var want []string
		for i := range 30 {
			want = append(want, fmt.Sprint("slow-", i))
			r.addTo("slow", names[0], want[i])
		}
		for i := range 500 {
			r.addTo("fast", names[1], fmt.Sprint("m", i))
		}
		small := func(rt *Route) { rt.Window = 32 }
		r.start(r.route(small))
		r.await(500)
		time.AfterFunc(time.Second, func() { close(cut) })
		r.stop()
		if n := len(r.parked()); n != 30 {
			t.Errorf("%d are parked, want 30: %v", n, brief(r.parked()))
		}
		close(h.release)
		cut = make(chan struct{})
		r.start(r.route(small))
		r.await(530)
		r.stop()
		if got := r.dest.received()[names[0]]; !slices.Equal(got, want) {
			t.Errorf("the slow group: got %v, want %v", got, want)
		}
		r.wantParked()
	})
}

// The only address of a route is down: its backlog waits in place.
func TestG10_AStaticDestinationDoesNotParkItsBacklog(t *testing.T) {
	for name, o := range map[string]adapters.Ordering{"wave": wave, "group": {MaxMessages: 10, Static: true}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, o, func(r *rig) {
				r.dest.setFail(func(string, *message.Message) error { return outbox.Unavailable(errInjected, 0) })
				r.fill(10, 100)
				r.start(r.route(func(rt *Route) { rt.Window = 32 }))
				time.Sleep(time.Minute)
				r.wantParked()
				r.dest.setFail(nil)
				r.await(1000)
				r.stop()
				r.checkOrdered(10, 100)
				r.wantParked()
			})
		})
	}
}

// slowWaves takes its time for each wave.
type slowWaves struct {
	*receiver
	each time.Duration
}

func (d slowWaves) Deliver(ctx context.Context, address string, batch []*message.Message) []error {
	time.Sleep(d.each)
	return d.receiver.Deliver(ctx, address, batch)
}

// A broker that is slow for a while: what is in its waves waits in place. Nothing
// that lies behind could go before it.
func TestG10_ASlowBrokerDoesNotParkItsBacklog(t *testing.T) {
	inBubble(t, wave, func(r *rig) {
		r.fill(10, 100)
		r.start(r.route(func(rt *Route) {
			rt.Window, rt.Destination = 32, slowWaves{r.dest, 2 * lane.ShortDelay}
		}))
		for r.dest.count() < 1000 {
			time.Sleep(lane.ShortDelay / 4)
			r.wantParked()
			if t.Failed() {
				break
			}
		}
		r.stop()
		r.checkOrdered(10, 100)
	})
}

// A source that is polled rarely: what fills a lane is moved out of the way all
// the same.
func TestG6_AFullLaneEvictsHoweverRareThePolls(t *testing.T) {
	inBubble(t, templated, func(r *rig) {
		names := sameLane(2)
		h := newHanging(nil, names[0])
		r.dest.setFail(h.fault)
		for i := range 200 {
			r.addTo("slow", names[0], fmt.Sprint("slow", i))
		}
		r.addTo("fast", names[1], "m")
		began := time.Now()
		r.start(r.route(func(rt *Route) {
			rt.Window, rt.SendTimeout, rt.Middleware = 32, time.Hour, nil
			rt.Poll = Poll{Min: 5 * time.Minute, Max: 5 * time.Minute}
		}))
		r.await(1)
		if d := time.Since(began); d > time.Minute {
			t.Errorf("it took %v", d)
		}
		close(h.release)
		r.await(201)
		r.stop()
	})
}
