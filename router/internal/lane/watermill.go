package lane

import (
	"context"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
)

// StartWatermill runs Watermill's router with a handler for each lane of the routes. The
// channel has the outcome of its Run.
func StartWatermill(routes []*Route) (*message.Router, <-chan error, error) {
	wm, err := message.NewRouter(message.RouterConfig{CloseTimeout: 5 * time.Second}, watermill.NopLogger{})
	if err != nil {
		return nil, nil, err
	}
	lanes := map[string]*Lane{}
	wm.AddSubscriberDecorators(func(s message.Subscriber) (message.Subscriber, error) {
		return primed{s, lanes}, nil
	})
	for _, rt := range routes {
		for _, l := range rt.Lanes {
			lanes[l.Name] = l
			h := wm.AddConsumerHandler(l.Name, l.Name, l, l.handle)
			h.AddMiddleware(l.work)
			h.AddMiddleware(rt.Middleware...)
		}
	}
	done := make(chan error, 1)
	go func() { done <- wm.Run(context.Background()) }()
	select {
	case <-wm.Running():
		return wm, done, nil
	case err := <-done:
		return nil, nil, fmt.Errorf("start the Watermill router: %w", err)
	}
}

// Close ends the calls for workers, and with them the lanes' handlers. All sessions have
// stopped.
func (r *Route) Close() {
	for _, l := range r.Lanes {
		close(l.out)
	}
}

// StopProbing ends the timers of addresses that are down.
func (r *Route) StopProbing() { r.health.close() }
