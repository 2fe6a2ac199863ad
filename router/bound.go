package router

import (
	"context"
	"errors"
	"time"
)

// bound limits how long a database's answer is waited for. When nothing comes
// through a connection any more, a network that drops packets tells nobody for a
// quarter of an hour, and a proxy between may never do; then a new connection is
// worth a try. Each time in vain doubles the limit, so that what is only slow
// gets its answer in the end.
type bound struct {
	usual time.Duration
	vain  int // times in a row
}

// longestBound is where doubling ends.
const longestBound = 10 * time.Minute

// begin limits a call.
func (b *bound) begin(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, max(min(b.usual<<min(b.vain, 10), longestBound), b.usual))
}

// end takes the outcome of a call with the context that begin returned.
func (b *bound) end(ctx context.Context, err error) {
	switch {
	case err == nil:
		b.vain = 0
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		b.vain++
	}
}
