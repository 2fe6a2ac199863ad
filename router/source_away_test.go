package router

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
)

// awaySource is a source whose server can be away: it refuses, or it does not answer.
type awaySource struct {
	*memSource
	away, hangs atomic.Bool
}

func (s *awaySource) ask(ctx context.Context) error {
	if !s.away.Load() {
		return nil
	}
	if s.hangs.Load() {
		<-ctx.Done()
	}
	return errInjected
}

func (s *awaySource) Fetch(ctx context.Context, reads []adapters.Read, take func(int, *adapters.Row) bool) ([]adapters.ReadResult, error) {
	if err := s.ask(ctx); err != nil {
		return nil, err
	}
	return s.memSource.Fetch(ctx, reads, take)
}

func (s *awaySource) Validate(ctx context.Context, _ adapters.Cursor) error { return s.ask(ctx) }

// besideAway runs a test with a source that is away, or comes and goes, and the routes: one of the rig's source, and one of that.
func besideAway(t *testing.T, f func(r *rig, routes func() []Route, away *receiver)) {
	for _, kind := range []string{"refuses", "hangs", "comes and goes"} {
		t.Run(kind, func(t *testing.T) {
			inBubble(t, wave, func(r *rig) {
				src := &awaySource{memSource: &memSource{}}
				tries, away := atomic.Int32{}, &receiver{ordering: wave}
				routes := func() []Route {
					return []Route{r.route(nil), r.route(func(rt *Route) {
						rt.Name, rt.Source, rt.Destination = "other", src, away
					})}
				}
				src.add(&adapters.Row{ID: "x", Type: "t", Group: "g", Payload: []byte(`{}`), CreatedAt: time.Now()})
				away.setFail(func(string, *message.Message) error {
					if tries.Add(1) > 6 {
						return nil
					}
					return outbox.Transient(errInjected, 5*time.Second)
				})
				r.config.Instance = "a"
				r.start(routes()...)
				<-r.router.Ready()
				time.Sleep(5 * time.Second)
				src.hangs.Store(kind == "hangs")
				src.away.Store(true)
				if kind == "comes and goes" {
					tick := time.NewTicker(7 * time.Second)
					defer tick.Stop()
					stop := make(chan struct{})
					defer close(stop)
					go func() {
						for away := false; ; away = !away {
							select {
							case <-tick.C:
								src.away.Store(away)
							case <-stop:
								return
							}
						}
					}()
				}
				f(r, routes, away)
			})
		})
	}
}

// While a source is away, messages of another one with the same state store are tried again when they are due.
func TestG6_RetriesGoOnWhileAnotherSourceIsAway(t *testing.T) {
	besideAway(t, func(r *rig, _ func() []Route, _ *receiver) {
		for i := range 6 {
			id := fmt.Sprint("m", i)
			r.dest.setFail(once(id, outbox.Transient(errInjected, 5*time.Second)))
			r.add(fmt.Sprint("g", i), id)
			began := time.Now()
			r.until(id, func() bool { return r.dest.has(id) })
			if took := time.Since(began); took > 10*time.Second { // a settle waits a second for an answer that does not come
				r.t.Errorf("%s was to be tried again after 5 s and came after %v", id, took)
			}
			time.Sleep(4 * time.Second)
		}
		r.stop()
	})
}

// While a source is away, lanes of another one with the same state store are handed over.
func TestG6_LanesMoveWhileAnotherSourceIsAway(t *testing.T) {
	besideAway(t, func(r *rig, routes func() []Route, _ *receiver) {
		b := r.peer("b")
		b.start(routes()...)
		began := time.Now()
		r.until("half of the lanes move", func() bool { return r.state.lanesOf("b")["orders"] == adapters.Slots/2 })
		moved := time.Since(began)
		r.fill(50, 1)
		r.until("all arrive", func() bool { return r.dest.count()+b.dest.count() == 50 })
		if took := time.Since(began); moved > time.Minute || took > moved+10*time.Second {
			r.t.Errorf("lanes had moved after %v, and messages had arrived after %v", moved, took)
		}
		r.stop()
		b.stop()
	})
}

// A source that stays away holds up what was read of it before only at first: then it counts as sure that its server lacks nothing.
func TestG6_RetriesGoOnWhileTheirOwnSourceIsAway(t *testing.T) {
	besideAway(t, func(r *rig, _ func() []Route, away *receiver) {
		began := time.Now()
		r.until("x", func() bool { return away.has("x") })
		if took := time.Since(began); took > time.Minute {
			r.t.Errorf("x was to be tried again five times after 5 s and came after %v", took)
		}
		r.stop()
	})
}
