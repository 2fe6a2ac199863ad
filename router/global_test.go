package router

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
)

// order returns the positions in order of arrival.
func (r *rig) order() []string {
	var out []string
	for _, msg := range r.dest.got {
		out = append(out, msg.Metadata[outbox.MetaPosition])
	}
	return out
}

func positions(n int) (out []string) {
	for i := range n {
		out = append(out, strconv.Itoa(i+1))
	}
	return out
}

func TestG2_GlobalOrderAcrossSlots(t *testing.T) {
	inBubble(t, wave, func(r *rig) {
		global := func(rt *Route) { rt.Order, rt.Window = adapters.OrderGlobal, 32 }
		r.fill(30, 10)
		r.dest.setFail(flaky(errInjected))
		r.start(r.route(global))
		r.await(150)
		r.stop()
		r.start(r.route(global))
		r.await(300)
		r.stop()
		if got := r.order(); !slices.Equal(got, positions(300)) {
			t.Errorf("order of arrival: %v", got)
		}
	})
}

// While something is parked nothing more is read, so that it need not be
// parked behind it.
func TestG2_GlobalParkedBlocksReading(t *testing.T) {
	inBubble(t, wave, func(r *rig) {
		r.dest.setFail(once("g1-0", outbox.Transient(errInjected, time.Minute)))
		r.fill(4, 50)
		r.start(r.route(func(rt *Route) { rt.Order, rt.Window = adapters.OrderGlobal, 16 }))
		time.Sleep(30 * time.Second)
		if n := len(r.parked()); n == 0 || n > 16 || r.dest.count() != 1 {
			t.Errorf("%d are parked and %d delivered, want at most a window, and 1", n, r.dest.count())
		}
		r.await(200)
		r.stop()
		if got := r.order(); !slices.Equal(got, positions(200)) {
			t.Errorf("order of arrival: %v", got)
		}
		r.wantParked()
	})
}

// Global order keeps the rows of a whole poll until they are merged.
func TestG7_GlobalOrderKeepsNoMoreThanTheBudget(t *testing.T) {
	inBubble(t, wave, func(r *rig) {
		r.config.Memory = 4 << 20
		const n, size = 400, 1 << 20
		payload := make([]byte, size)
		for i := range n {
			r.source.add(&adapters.Row{ID: fmt.Sprint("m", i), Type: "t", Group: fmt.Sprint("g", i), Payload: payload, CreatedAt: time.Now()})
		}
		src := &counted{memSource: r.source}
		r.start(r.route(func(rt *Route) { rt.Source, rt.Order = src, adapters.OrderGlobal }))
		r.await(n)
		r.stop()
		if src.most > 4+adapters.Slots {
			t.Errorf("%d rows of 1 MiB were kept of one fetch, with 4 MiB of memory", src.most)
		}
	})
}

// Routes with order global that stand at one place share their reads; with more places than a poll
// reads all get their turn, and end up at one place.
func TestG13_ManyGlobalRoutesShareTheirReads(t *testing.T) {
	inBubble(t, wave, func(r *rig) {
		const many, rows = 60, 40
		src := &counted{memSource: r.source}
		r.fill(4, rows/4)
		var routes []Route
		for i := range many {
			routes = append(routes, r.route(func(rt *Route) {
				rt.Name, rt.Source, rt.Order, rt.Window = fmt.Sprint("route", i), src, adapters.OrderGlobal, 8+i%20 // rooms of their own bring them to different places
			}))
		}
		r.start(routes...)
		r.await(many * rows)
		r.fillFrom(4, rows/4, rows/2)
		r.await(2 * many * rows)
		r.stop()
		next := map[string]int{}
		for _, msg := range r.dest.got {
			route := routeOf(msg)
			next[route]++
			if at := msg.Metadata[outbox.MetaPosition]; at != strconv.Itoa(next[route]) {
				t.Fatalf("%s: position %s arrived, want %d", route, at, next[route])
			}
		}
		if src.mostReads > 16*adapters.Slots {
			t.Errorf("a poll made %d reads for %d routes, want at most those of 16 places", src.mostReads, many)
		}
	})
}

// counted notes the most rows that were taken of one fetch, and the most reads that one had.
type counted struct {
	*memSource
	most, mostReads int
}

func (c *counted) Fetch(ctx context.Context, reads []adapters.Read, take func(int, *adapters.Row) bool) ([]adapters.ReadResult, error) {
	n := 0
	c.mostReads = max(c.mostReads, len(reads))
	defer func() { c.most = max(c.most, n) }()
	return c.memSource.Fetch(ctx, reads, func(i int, row *adapters.Row) bool {
		ok := take(i, row)
		if ok {
			n++
		}
		return ok
	})
}
