// Package lanectx has the values that lanes, gates and our own middleware exchange through the contexts of messages. Applications read them with
// functions of packages outbox and adapters: AttemptOf, DeliveredOf, ShareOf.
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

// The keys of values in the context of a message on a lane. They are boxed once, so that reading a value does not allocate.
var (
	Attempt   any = attemptKey{}   // an *outbox.Attempt
	Delivered any = deliveredKey{} // a bool: the destination has taken the message
	Limit     any = limitKey{}     // a time.Duration, see [LimitOf]
	Share     any = shareKey{}     // a func() float64, see adapters.ShareOf
)

// LimitOf returns how long one attempt's delivery may take, from the message's context; ok is false when nothing limits it. A lane applies the limit
// to the delivery itself: the time that a message waits for its turn is not counted, although the context's own deadline, which is for the
// middleware inside the timeout, includes it.
func LimitOf(ctx context.Context) (limit time.Duration, ok bool) {
	limit, ok = ctx.Value(Limit).(time.Duration)
	return limit, ok
}

// Quiet is implemented by contexts whose end a lane notices without their Done channel: its own, and those that only limit the attempt. A message
// with such a context waits for its turn without Done, which would arm a timer for every message.
type Quiet interface {
	// Quiet reports whether a lane need not wait for Done.
	Quiet() bool
}

// IsQuiet reports whether the context is [Quiet].
func IsQuiet(ctx context.Context) bool {
	q, ok := ctx.(Quiet)
	return ok && q.Quiet()
}
