package router

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
)

// snapSource is a memSource whose snapshots differ from one fetch to the next, as in a database with other transactions.
type snapSource struct {
	*memSource
	n atomic.Int64 // of the fetch
}

func (s *snapSource) Fetch(ctx context.Context, reads []adapters.Read, take func(int, *adapters.Row) bool) ([]adapters.ReadResult, error) {
	snapshot := strconv.FormatInt(s.n.Add(1), 10)
	out, err := s.memSource.Fetch(ctx, reads, take)
	for i := range out {
		switch {
		case !out[i].Drained:
		case reads[i].Until != nil:
			out[i].Next = *reads[i].Until
		default:
			out[i].Next.Snapshot = snapshot
		}
	}
	return out, err
}

// every is a fixed pause.
func every(d time.Duration) Poll { return Poll{Min: d, Max: d} }

// A route with a pace of its own gets the row that woke the reader, also if routes of other paces are further.
func TestG1_APacedRouteGetsTheRowThatWokeIt(t *testing.T) {
	for _, order := range []adapters.OrderMode{adapters.OrderGroup, adapters.OrderGlobal} {
		t.Run(string(order), func(t *testing.T) {
			inBubble(t, wave, func(r *rig) {
				src := &snapSource{memSource: r.source}
				beside := func(name string, pace Poll) Route {
					return r.route(func(rt *Route) {
						rt.Name, rt.Source, rt.Destination, rt.Poll, rt.Pace = name, src, &receiver{ordering: wave}, Poll{Max: time.Second}, pace
					})
				}
				r.start(r.route(func(rt *Route) {
					rt.Source, rt.Order, rt.Pace, rt.Poll = src, order, every(10*time.Minute), Poll{Max: time.Second}
				}), beside("beside", Poll{}), beside("paced", every(7*time.Second)))
				<-r.router.Ready()
				for round := range 3 {
					time.Sleep(5 * time.Minute)
					r.add("g", "m"+strconv.Itoa(round))
					began := time.Now()
					r.router.Wake(src)
					r.await(round + 1)
					if took := time.Since(began); took > time.Second {
						t.Errorf("row %d came %v after it woke the reader", round, took)
					}
				}
				r.stop()
			})
		})
	}
}

// A wake-up is not used up by a poll that lets a paced route catch up.
func TestG1_ARouteBesidePacedOnesGetsTheRowThatWokeIt(t *testing.T) {
	inBubble(t, wave, func(r *rig) {
		src, poll := &snapSource{memSource: r.source}, every(time.Minute)
		r.start(r.route(func(rt *Route) { rt.Source, rt.Poll = src, poll }), r.route(func(rt *Route) {
			rt.Name, rt.Source, rt.Destination, rt.Poll, rt.Pace = "paced", src, &receiver{ordering: wave}, poll, every(90*time.Second)
			rt.Match = func(*adapters.Row) bool { return false }
		}))
		<-r.router.Ready()
		for round := range 8 {
			time.Sleep(4*time.Minute + 10*time.Second)
			r.add("g", "m"+strconv.Itoa(round))
			began := time.Now()
			r.router.Wake(src)
			r.await(round + 1)
			if took := time.Since(began); took > time.Second {
				t.Errorf("row %d came %v after it woke the reader", round, took)
			}
		}
		r.stop()
	})
}

// Paced routes that catch up cost a poll or two each time that they are due, and no more.
func TestG9_IdlePacedRoutesCostFewPolls(t *testing.T) {
	inBubble(t, wave, func(r *rig) {
		src, poll := &snapSource{memSource: r.source}, Poll{Max: time.Second}
		routes := []Route{r.route(func(rt *Route) { rt.Source, rt.Poll = src, poll })}
		due := 0
		for i, pace := range []time.Duration{50500 * time.Millisecond, 70300 * time.Millisecond, 110700 * time.Millisecond} {
			due += int(time.Hour / pace)
			routes = append(routes, r.route(func(rt *Route) {
				rt.Name, rt.Source, rt.Destination, rt.Poll, rt.Pace = "paced"+strconv.Itoa(i), src, &receiver{ordering: wave}, poll, every(pace)
			}))
		}
		r.start(routes...)
		<-r.router.Ready()
		r.add("g", "m")
		time.Sleep(time.Minute)
		before := src.n.Load()
		time.Sleep(time.Hour)
		polls, most := int(src.n.Load()-before), int(time.Hour/time.Second)+3*due
		t.Logf("%d polls, %d times a route was due", polls, due)
		if polls > most {
			t.Errorf("%d polls in an idle hour, want %d at most", polls, most)
		}
		r.stop()
	})
}
