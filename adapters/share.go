package adapters

import "context"

// shareKey is the context key under which lanes tell the instance's share.
type shareKey struct{}

// ShareKey is the key under which a lane's message context answers with a
// func() float64. It is exported for the router; middleware calls [ShareOf].
var ShareKey any = shareKey{}

// ShareOf returns which part of the route's lanes this instance owns now, above 0
// and at most 1, from the message's context. A limit on a route as a whole,
// such as its rate, is multiplied by it. Outside of a lane ok is false, and
// the share is 1.
func ShareOf(ctx context.Context) (share float64, ok bool) {
	f, ok := ctx.Value(ShareKey).(func() float64)
	if !ok {
		return 1, false
	}
	return f(), true
}
