package settling

import (
	"context"
	"errors"
	"time"
)

// CallTimeout limits how long a database's answer is waited for. When nothing comes
// through a connection any more, a network that drops packets reports no error for a
// quarter of an hour, and a proxy between may never do; then a new connection is
// worth a try. Each failure doubles the limit, so that what is only slow
// gets its answer in the end.
type CallTimeout struct {
	Usual    time.Duration
	timeouts int // times in a row
}

// LongestCallTimeout is where doubling ends.
const LongestCallTimeout = 10 * time.Minute

// Call makes a call with a context that is limited.
func (c *CallTimeout) Call(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, max(min(c.Usual<<min(c.timeouts, 10), LongestCallTimeout), c.Usual))
	defer cancel()
	err := call(ctx)
	switch {
	case err == nil:
		c.timeouts = 0
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		c.timeouts++
	}
	return err
}
