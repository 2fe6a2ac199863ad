package listeners

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
)

// Any means every event type, or every aggregate type.
const Any = "*"

// Registry has listeners. Create one with [New]. It may be used by several destinations, and listeners may be added at
// any time: they get events delivered from then on.
type Registry struct {
	mu       sync.RWMutex
	sorted   []*listener // as they run; never changed in place
	count    int
	problems []error
}

// New returns a registry without listeners.
func New() *Registry { return &Registry{} }

// listener is a function that was registered.
type listener struct {
	name          string
	eventType     string
	aggregateType string
	middleware    []message.HandlerMiddleware
	handler       message.HandlerFunc // with its middleware
}

// Option changes how one listener is registered.
type Option func(*listener)

// OfAggregate restricts a listener to events of an aggregate type, which may be a constant of a string type of the program.
// Default: [Any], events without one included.
func OfAggregate[S ~string](aggregateType S) Option {
	return func(l *listener) { l.aggregateType = string(aggregateType) }
}

// Named names a listener in errors and logs. Default: its event type and its number.
func Named(name string) Option { return func(l *listener) { l.name = name } }

// With gives a listener middleware of its own, outermost first: any Watermill middleware. It gets a copy of the message,
// so its changes affect no other listener. Messages that it produces are dropped.
func With(mw ...message.HandlerMiddleware) Option {
	return func(l *listener) { l.middleware = append(l.middleware, mw...) }
}

// Listen registers fn for an event type, which is a string or a constant of type [outbox.Type]; [Any] for all.
//
// P is the parameter type of fn: [outbox.Envelope] is the whole event, []byte the unchanged payload, and any other type is decoded from the
// payload, by encoding/json, or by its UnmarshalBinary if the payload is bytes. A payload that cannot be decoded makes the event dead
// without another attempt. [EnvelopeOf] returns the event from ctx, [outbox.AttemptOf] the attempt.
func Listen[P any](r *Registry, eventType outbox.Type[P], fn func(ctx context.Context, payload P) error, opts ...Option) {
	l := &listener{eventType: string(eventType), aggregateType: Any}
	if fn != nil {
		l.handler = func(msg *message.Message) ([]*message.Message, error) {
			payload, err := decode[P](msg)
			if err != nil {
				return nil, outbox.Permanent(err)
			}
			return nil, fn(msg.Context(), payload)
		}
	}
	for _, opt := range opts {
		opt(l)
	}
	r.add(l)
}

func (r *Registry) add(l *listener) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count++
	if l.name == "" {
		l.name = l.eventType + " #" + strconv.Itoa(r.count)
	}
	if err := l.problem(); err != nil {
		r.problems = append(r.problems, fmt.Errorf("listener %q: %w", l.name, err))
		return
	}
	for _, mw := range slices.Backward(l.middleware) {
		l.handler = mw(l.handler)
	}
	r.sorted = append(slices.Clip(r.sorted), l) // a copy: the former is being read
	slices.SortStableFunc(r.sorted, func(a, b *listener) int { return cmp.Compare(a.rank(), b.rank()) })
}

// problem says why a listener cannot be used.
func (l *listener) problem() error {
	switch {
	case l.eventType == "":
		return errors.New("the event type is empty; use listeners.Any for all")
	case l.aggregateType == "":
		return errors.New("the aggregate type is empty; leave OfAggregate out for all")
	case l.handler == nil:
		return errors.New("the function is nil")
	case slices.ContainsFunc(l.middleware, func(mw message.HandlerMiddleware) bool { return mw == nil }):
		return errors.New("a middleware is nil")
	}
	return nil
}

// rank is lower for those that run earlier.
func (l *listener) rank() (n int) {
	if l.aggregateType == Any {
		n = 1
	}
	if l.eventType == Any {
		n += 2
	}
	return n
}

// listeners returns all listeners as they run.
func (r *Registry) listeners() []*listener {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.sorted
}

func (l *listener) matches(msg *message.Message) bool {
	return (l.eventType == Any || l.eventType == msg.Metadata[outbox.MetaType]) &&
		(l.aggregateType == Any || l.aggregateType == msg.Metadata[outbox.MetaAggregateType])
}

// Destination returns a destination that hands events to the listeners, to at most so many at once; workers <= 0: 4. The
// error names invalid registrations. A program passes the registry to outrider.WithListeners instead.
func (r *Registry) Destination(workers int) (adapters.Destination, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if err := errors.Join(r.problems...); err != nil {
		return nil, err
	}
	if workers <= 0 {
		workers = DefaultWorkers
	}
	return &destination{registry: r, workers: workers}, nil
}
