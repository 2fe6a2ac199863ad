package router

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/outriderhq/outrider/adapters"
)

// mute is a source that does not answer when it is asked about cursors, a few times.
type mute struct {
	*memSource
	times atomic.Int32
}

func (m *mute) Validate(ctx context.Context, c adapters.Cursor) error {
	if m.times.Add(-1) >= 0 {
		return errors.New("the database system is starting up") // no timeout, and none of the network's
	}
	return m.memSource.Validate(ctx, c)
}

// A source that does not answer when a route takes its lanes says nothing about the
// cursors: the route is not stopped, and begins when the source answers.
func TestG13_ASourceThatDoesNotAnswerStopsNoRoute(t *testing.T) {
	inBubble(t, wave, func(r *rig) {
		r.fill(3, 3)
		r.start(r.route(nil))
		r.await(9)
		r.stop()
		src := &mute{memSource: r.source}
		src.times.Store(3)
		r.fillFrom(3, 3, 6)
		r.start(r.route(func(rt *Route) { rt.Source = src }))
		r.await(18)
		r.stop()
		r.checkOrdered(3, 6)
	})
}
