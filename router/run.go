package router

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/outriderhq/outrider/router/internal/lane"
	"github.com/outriderhq/outrider/router/internal/ownership"
)

// Run delivers until ctx ends, then drains: it stops reading, finishes what is
// being sent, settles, and releases the lanes. It returns an error when the
// routes cannot start or continue, when the last progress cannot be written,
// and [ErrCutOff] when [Config.DrainTimeout] was over before all was finished; nil
// after a clean drain. A router runs once; another Run returns an error.
func (r *Router) Run(ctx context.Context) error {
	if !r.begun.CompareAndSwap(false, true) {
		return errors.New("this router runs already, or has run: make another one with router.New")
	}
	joined := 0
	defer func() {
		for _, m := range r.managers[:joined] {
			m.Leave()
		}
	}()
	for _, m := range r.managers {
		if err := m.Join(ctx); err != nil {
			if ctx.Err() != nil {
				return nil // asked to stop before it began: that is no failure
			}
			return err
		}
		joined++
	}
	if err := lane.Compose(lanesOf(r.routes.All())); err != nil {
		return err
	}
	return r.work(ctx)
}

// work runs the parts until ctx ends or one fails, and drains.
func (r *Router) work(ctx context.Context) error {
	reading, stopReading := context.WithCancel(ctx)
	defer stopReading()
	settling, stopSettling := context.WithCancel(context.Background())
	defer stopSettling()
	// Subscriptions last until everything is settled: acks that come after a
	// subscription has ended are lost.
	listening, stopListening := context.WithCancel(context.Background())
	defer stopListening()
	var readers, settlers sync.WaitGroup
	failed := make(chan error, 2*len(r.managers)+len(r.listeners))
	for _, m := range r.managers {
		settlers.Go(func() { m.Settler.Run(settling) })
		settlers.Go(func() { m.KeepLease(settling) })
		readers.Go(func() { m.CommitOffsets(reading) })
	}
	ready := true
	for _, m := range r.managers {
		pause, err := m.AcquireAll(reading)
		if err != nil {
			failed <- err
			ready = false
		}
		readers.Go(func() {
			if err := m.AcquireLanes(reading, pause); err != nil {
				failed <- err
			}
		})
	}
	for _, rd := range r.readers {
		readers.Go(func() { rd.Run(reading) })
	}
	for _, c := range r.claimers {
		settlers.Go(func() { c.Settler.Run(settling) })
		settlers.Go(func() { c.Maintain(settling) })
		readers.Go(func() { c.Run(reading) })
	}
	for _, l := range r.listeners {
		readers.Go(func() {
			if err := l.Run(reading, listening); err != nil {
				failed <- err
			}
		})
	}
	if ready {
		close(r.ready)
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	stopReading()
	readers.Wait()
	err = errors.Join(err, r.drain())
	stopSettling()
	settlers.Wait()
	return err
}

// drain ends all sessions and writes what they concluded.
func (r *Router) drain() error {
	ctx, cancel := context.WithTimeout(context.Background(), r.cfg.DrainTimeout)
	defer cancel()
	sessions := map[*ownership.Manager][]*lane.Session{}
	var ending sync.WaitGroup
	for _, m := range r.managers {
		sessions[m] = m.Drain()
		for _, s := range sessions[m] {
			ending.Go(func() { s.Stop(ctx) })
		}
	}
	ending.Wait()
	var errs []error
	var stopped []*lane.Session
	for _, m := range r.managers {
		m.Wait()
		stopped = append(stopped, m.Sessions()...)
		if err := m.Settler.Finish(ctx, r.cfg.DrainTimeout); err != nil {
			errs = append(errs, fmt.Errorf("the last progress could not be written, so messages may be delivered again: %w", err))
		}
	}
	for _, c := range r.claimers {
		errs = append(errs, c.Flush(ctx))
	}
	for _, rt := range r.routes.All() {
		rt.Health.Close()
	}
	return errors.Join(append(errs, cutOff(stopped, r.cfg.DrainTimeout))...)
}

// ErrCutOff is the error of [Router.Run], by errors.Is, when
// [Config.DrainTimeout] was over before everything in flight had ended: what was
// left was cancelled, and whether it arrived is not known. Nothing is lost: it
// stays unsettled and may be delivered again. All that was concluded is written
// down, unless the error says otherwise as well.
var ErrCutOff = errors.New("the drain was cut off")

// mostRoutesNamed bounds the routes that an error names.
const mostRoutesNamed = 5

// cutOff returns an [ErrCutOff] that says what was left of the stopped sessions
// when the limit was over; nil when nothing was.
func cutOff(sessions []*lane.Session, limit time.Duration) error {
	left := lane.UnknownBy(sessions)
	if len(left) == 0 {
		return nil
	}
	n := 0
	var routes []string
	for i, l := range left {
		n += l.Messages
		if i < mostRoutesNamed {
			routes = append(routes, fmt.Sprintf("route %s (%d, in %s)", l.Route, l.Messages, strings.Join(l.Lanes, ", ")))
		}
	}
	if more := len(left) - len(routes); more > 0 {
		routes = append(routes, fmt.Sprintf("%d more routes", more))
	}
	return fmt.Errorf("%w after %v (drain_timeout) with %s in flight: %s; whether they arrived is not known, and they may be delivered again; "+
		"raise drain_timeout above the timeout of these routes, or find out what takes their receivers or middleware so long",
		ErrCutOff, limit, messages(n), strings.Join(routes, ", "))
}

func messages(n int) string {
	if n == 1 {
		return "1 message"
	}
	return fmt.Sprintf("%d messages", n)
}
