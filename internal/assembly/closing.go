package assembly

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/outriderhq/outrider/adapters"
)

const (
	// leastClosing is the time for closing when a drain used up its own.
	leastClosing = time.Second
	// closingLimit is the time for closing where nothing was drained. It is more than the 15 s for which pgx waits for the end of a connection
	// that does not answer.
	closingLimit = 20 * time.Second
)

// Close frees all connections.
func (p *Parts) Close() error { return p.CloseWithin(closingLimit) }

// CloseWithin frees all connections, side by side, and returns when that is done or
// the limit, a second at least, is over: what a program supplied may close as slowly as it likes, or
// never, and must not keep the process from ending.
func (p *Parts) CloseWithin(limit time.Duration) error {
	n := len(p.Feeds) + len(p.destinations) + len(p.States) + len(p.leaders) + 1
	c := closing{done: make(chan closed, n)} // so that what ends after the limit ends all the same
	for name, f := range p.Feeds {
		switch {
		case f.Source != nil:
			c.begin("source "+name, f.Source.Close)
		case f.Queue != nil:
			c.begin("source "+name, f.Queue.Close)
		case f.close != nil:
			c.begin("source "+name, f.close)
		}
	}
	for name, d := range p.destinations {
		c.begin("destination "+name, d.Close)
	}
	for _, s := range p.States {
		c.begin("the state store", s.Close)
	}
	for name, l := range p.leaders {
		c.begin("the leader's lock of source "+name, func() error { l.Close(); return nil })
	}
	c.begin("tracing", p.traces.Close)
	return c.wait(max(limit, leastClosing))
}

// closing collects the results of Close calls that run side by side.
type closing struct {
	left []string // names of those that have not returned
	done chan closed
}

type closed struct {
	what string
	err  error
}

func (c *closing) begin(what string, closeIt func() error) {
	c.left = append(c.left, what)
	go func() {
		defer func() {
			if r := recover(); r != nil {
				c.done <- closed{what, fmt.Errorf("close %s: %w", what, adapters.Recovered("its Close", r))}
			}
		}()
		c.done <- closed{what, closeIt()}
	}()
}

// wait returns the errors of the calls, and one for each that did not return in time.
func (c *closing) wait(limit time.Duration) error {
	over := time.NewTimer(limit)
	defer over.Stop()
	var errs []error
	for len(c.left) > 0 {
		select {
		case d := <-c.done:
			i := slices.Index(c.left, d.what)
			c.left = slices.Delete(c.left, i, i+1)
			errs = append(errs, d.err)
		case <-over.C:
			for _, what := range c.left {
				errs = append(errs, fmt.Errorf("%s: its Close did not return within %v and is waited for no longer", what, limit.Round(time.Millisecond)))
			}
			return errors.Join(errs...)
		}
	}
	return errors.Join(errs...)
}
