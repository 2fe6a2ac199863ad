package assembly

import (
	"context"
	"errors"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/router"
)

// Feed is read by the routes of a source, which share it: one of source, queue and
// subscriber, and how it is read.
type Feed struct {
	Source     adapters.OperatorSource
	Queue      adapters.OperatorQueue
	subscriber message.Subscriber
	topic      string                      // of the subscriber
	maxRow     int64                       // of the subscriber
	examine    func(context.Context) error // checks such a subscriber; nil: there is nothing to check
	close      func() error                // of a subscriber that is not the program's; nil: it has none

	poll   config.Poll
	claims router.Claims // of the queue
	hot    router.Hot    // of the queue

	// Of a queue whose poll takes so many rows of each of its tables.
	tables   int            // 0: batch is that of the poll
	batch    func(rows int) // changes how many rows are claimed of a table
	together bool           // requests of all routes count together
}

// check checks what is read; a subscriber is its program's to check.
func (f *Feed) check(ctx context.Context) error {
	switch {
	case f.Queue != nil:
		return f.Queue.Check(ctx)
	case f.Source != nil:
		return f.Source.Check(ctx)
	case f.examine != nil:
		return f.examine(ctx)
	}
	return nil
}

// give has a route read the feed.
func (f *Feed) give(r *router.Route) {
	r.Source, r.Queue, r.Subscriber, r.Topic, r.MaxRow = f.Source, f.Queue, f.subscriber, f.topic, f.maxRow
	r.Poll, r.Claims, r.Together = f.pollOf(f.poll), f.claims, f.together
	r.Hot = f.hot
}

// pollOf is a poll of all tables, where p is that of one.
func (f *Feed) pollOf(p config.Poll) router.Poll {
	batch := p.Batch * max(f.tables, 1)
	return router.Poll{Batch: batch, Min: p.Min.Std(), After: p.After, Factor: p.Factor, Max: p.Max.Std()}
}

// Repollable reports whether [Feed.Repoll] is enough for other settings. A client that
// polls by itself has to be replaced; a source that no route reads needs nothing.
func (f *Feed) Repollable() bool { return f.subscriber == nil }

// Repoll has the routes of a router that read the feed poll it in another way.
func (f *Feed) Repoll(r *router.Router, p config.Poll) {
	if f.batch != nil {
		f.batch(p.Batch)
	}
	switch {
	case f.Queue != nil:
		r.SetPoll(f.Queue, f.pollOf(p))
	case f.Source != nil:
		r.SetPoll(f.Source, f.pollOf(p))
	}
}

// openFeed returns what the routes of a source read; fresh reports that it was opened
// now, so that it has to be checked.
func (b *Builder) openFeed(ctx context.Context, p *Parts, name string) (f Feed, fresh bool, err error) {
	if f, ok := p.Feeds[name]; ok {
		return f, false, nil
	}
	k := b.Source(name)
	if k.Open == nil {
		return f, false, NotBuiltIn(b.Config.Sources[name])
	}
	if f, err = k.Open(ctx); err != nil {
		return f, false, err
	}
	if p.Feeds == nil {
		p.Feeds = map[string]Feed{}
	}
	p.Feeds[name] = f
	return f, true, nil
}

// CheckedFeed is [Builder.openFeed], and checks what it has opened. After an error of
// the check the feed is among the parts all the same.
func (b *Builder) CheckedFeed(ctx context.Context, p *Parts, name string) (Feed, error) {
	f, fresh, err := b.openFeed(ctx, p, name)
	if err == nil && fresh {
		err = f.check(ctx)
	}
	return f, err
}

// NotBuiltIn is the error for a section whose type no registry has.
func NotBuiltIn(section interface{ Kind() string }) error {
	if section == nil {
		return errors.New("it is not in the configuration")
	}
	return fmt.Errorf("type %q is not built into this program", section.Kind())
}

func claimsOf(c config.Claims) router.Claims {
	return router.Claims{InMemory: c.InMemory, PerGroup: c.PerGroup, Timeout: c.Timeout.Std(), Recover: c.Recover.Std()}
}

// DeadRows opens a source whose table keeps its dead rows, without the checks of a relay:
// an operator's role has fewer rights. It is nil for a source that has no such table.
func (b *Builder) DeadRows(ctx context.Context, p *Parts, source string) (adapters.OperatorQueue, error) {
	if !b.Source(source).Queue {
		return nil, nil
	}
	f, err := b.Feed(ctx, p, source)
	if err != nil {
		return nil, err
	}
	return f.Queue, nil
}

// Feed opens what the routes of a source read, without the checks of a relay.
func (b *Builder) Feed(ctx context.Context, p *Parts, source string) (Feed, error) {
	f, _, err := b.openFeed(ctx, p, source)
	return f, err
}
