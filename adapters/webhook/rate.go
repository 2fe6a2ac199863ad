package webhook

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/outriderhq/outrider/outbox"
)

// maxTurn is how long a request waits for its turn where it is; for a later
// turn its message goes back to its place. While it waits it takes up one of the
// requests of its route.
const maxTurn = 5 * time.Second

// maxAddresses is how many addresses a generation of limiters has.
const maxAddresses = 8192

// limits keeps a rate for each address. Addresses that have not been used for
// the longest time are forgotten when there are many: they begin with a full
// burst again. So memory is bounded by two generations, however many addresses
// a template makes.
type limits struct {
	rate  rate.Limit
	burst int
	most  int // addresses of a generation

	mu    sync.Mutex
	young map[string]*rate.Limiter
	old   map[string]*rate.Limiter
}

// newLimits returns nil for a rate without bound.
func newLimits(perSecond float64, burst int) *limits {
	if perSecond <= 0 {
		return nil
	}
	return &limits{rate: rate.Limit(perSecond), burst: burst, most: maxAddresses, young: map[string]*rate.Limiter{}}
}

// of returns the limiter of an address.
func (l *limits) of(address string) *rate.Limiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	if found := l.young[address]; found != nil {
		return found
	}
	found := l.old[address]
	if found == nil {
		found = rate.NewLimiter(l.rate, l.burst)
	}
	if len(l.young) >= l.most {
		l.old, l.young = l.young, make(map[string]*rate.Limiter)
	}
	l.young[address] = found
	return found
}

// wait returns when it is the address's turn, or an error of kind released.
func (l *limits) wait(ctx context.Context, shown, address string) error {
	if l == nil {
		return nil
	}
	limiter := l.of(address)
	if limiter.Allow() { // those who wait have reserved their turns
		return nil
	}
	most := maxTurn
	if deadline, ok := ctx.Deadline(); ok {
		// The time left after the wait must be enough for the request.
		most = min(most, time.Until(deadline)/2)
	}
	limited, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	err := limiter.Wait(limited)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return outbox.Released(fmt.Errorf("webhook: stopped waiting for a turn at %s: %w", shown, ctx.Err()))
	}
	// The limiter refuses a wait beyond the limit, but does not say how long.
	next := time.Duration((1 - limiter.Tokens()) / float64(l.rate) * float64(time.Second))
	return &outbox.Error{
		Kind:       outbox.KindReleased,
		Err:        fmt.Errorf("webhook: the next turn at %s (%g requests/s) is in %v", shown, float64(l.rate), next),
		RetryAfter: max(next, 0),
	}
}
