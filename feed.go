package outrider

import (
	"context"
	"errors"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/router"
)

// feed is what the routes of a source read, which they share: one of source, queue and
// subscriber, and how it is read.
type feed struct {
	source     adapters.Source
	queue      adapters.Queue
	subscriber message.Subscriber
	topic      string // of the subscriber
	maxRow     int64  // of the subscriber

	poll   router.Poll
	claims router.Claims // of the queue
}

// check checks what is read; a subscriber is its program's to check.
func (f *feed) check(ctx context.Context) error {
	switch {
	case f.queue != nil:
		return f.queue.Check(ctx)
	case f.source != nil:
		return f.source.Check(ctx)
	}
	return nil
}

// give has a route read the feed.
func (f *feed) give(r *router.Route) {
	r.Source, r.Queue, r.Subscriber, r.Topic, r.MaxRow = f.source, f.queue, f.subscriber, f.topic, f.maxRow
	r.Poll, r.Claims = f.poll, f.claims
}

// openFeed returns what the routes of a source read; fresh tells that it was opened
// now, so that it has to be checked.
func (b *builder) openFeed(ctx context.Context, p *parts, name string) (f feed, fresh bool, err error) {
	if f, ok := p.feeds[name]; ok {
		return f, false, nil
	}
	k := b.source(name)
	if k.open == nil {
		return f, false, notBuiltIn(b.cfg.Sources[name])
	}
	if f, err = k.open(ctx); err != nil {
		return f, false, err
	}
	if p.feeds == nil {
		p.feeds = map[string]feed{}
	}
	p.feeds[name] = f
	return f, true, nil
}

// checkedFeed is [builder.openFeed], and checks what it has opened. After an error of
// the check the feed is among the parts all the same.
func (b *builder) checkedFeed(ctx context.Context, p *parts, name string) (feed, error) {
	f, fresh, err := b.openFeed(ctx, p, name)
	if err == nil && fresh {
		err = f.check(ctx)
	}
	return f, err
}

// notBuiltIn is the error for a section whose type no registry has.
func notBuiltIn(section interface{ Kind() string }) error {
	if section == nil {
		return errors.New("it is not in the configuration")
	}
	return fmt.Errorf("type %q is not built into this program", section.Kind())
}

func pollOf(p config.Poll) router.Poll {
	return router.Poll{Batch: p.Batch, Min: p.Min.Std(), After: p.After, Factor: p.Factor, Max: p.Max.Std()}
}

func claimsOf(c config.Claims) router.Claims {
	return router.Claims{InMemory: c.InMemory, PerGroup: c.PerGroup, Timeout: c.Timeout.Std(), Recover: c.Recover.Std()}
}
