// Package lanectx is what lanes, gates and our own middleware say to each other through
// the contexts of messages. Applications ask with the functions of packages outbox and
// adapters: AttemptOf, DeliveredOf, ShareOf.
package lanectx

import (
	"context"
	"time"
)

type (
	attemptKey   struct{}
	deliveredKey struct{}
	limitKey     struct{}
	shareKey     struct{}
)

// The keys of values in the context of a message on a lane. They are boxed once, so
// that asking allocates nothing.
var (
	Attempt   any = attemptKey{}   // an *outbox.Attempt
	Delivered any = deliveredKey{} // a bool: the destination has taken the message
	Limit     any = limitKey{}     // a time.Duration, see [LimitOf]
	Share     any = shareKey{}     // a func() float64, see adapters.ShareOf
)

// LimitOf returns how long one attempt's delivery may take, from the message's
// context; ok is false when nothing limits it. A lane applies the limit to the
// delivery itself: the time that a message waits for its turn behind others is
// not counted, although the context's own deadline, which is for the
// middleware inside the timeout, runs on while it waits.
func LimitOf(ctx context.Context) (limit time.Duration, ok bool) {
	limit, ok = ctx.Value(Limit).(time.Duration)
	return limit, ok
}

// Quiet is implemented by contexts of which a lane knows, or would learn
// otherwise, when they end: its own, and those that only limit the attempt. A
// message with such a context waits for its turn without listening to Done,
// which would arm a timer for every message.
type Quiet interface {
	// Quiet reports whether Done need not be listened to.
	Quiet() bool
}

// IsQuiet reports whether the context is [Quiet].
func IsQuiet(ctx context.Context) bool {
	q, ok := ctx.(Quiet)
	return ok && q.Quiet()
}
