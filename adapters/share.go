package adapters

import (
	"context"

	"github.com/outriderhq/outrider/internal/lanectx"
)

// ShareOf returns the share of the route's lanes that this instance owns now,
// above 0 and at most 1, from the message's context. A limit on a route as a
// whole, such as its rate, is multiplied by it. Outside of a lane ok is false,
// and the share is 1.
func ShareOf(ctx context.Context) (share float64, ok bool) {
	f, ok := ctx.Value(lanectx.Share).(func() float64)
	if !ok {
		return 1, false
	}
	return f(), true
}
