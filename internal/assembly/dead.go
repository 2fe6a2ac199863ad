package assembly

import (
	"context"

	"github.com/outriderhq/outrider/adapters"
)

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
