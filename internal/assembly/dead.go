package assembly

import (
	"context"

	"github.com/outriderhq/outrider/adapters"
)

// DeadRows opens a source whose table keeps its dead rows, without the checks of a relay:
// an operator's role has fewer rights. It is nil for a source that has no such table.
func (b *Builder) DeadRows(ctx context.Context, p *Parts, source string) (adapters.DeadRows, error) {
	if !b.Source(source).Queue {
		return nil, nil
	}
	f, _, err := b.openFeed(ctx, p, source)
	if err != nil {
		return nil, err
	}
	dead, _ := f.Queue.(adapters.DeadRows)
	return dead, nil
}
