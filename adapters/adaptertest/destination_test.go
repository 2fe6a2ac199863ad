package adaptertest

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
)

// single is a destination that makes one request per message: its receiver may refuse one and take the next of the same group.
type single struct {
	mu      sync.Mutex
	taken   []Received
	refuses int // so many requests
}

func (*single) Address(*message.Message) (string, error) { return "there", nil }
func (*single) Close() error                             { return nil }

func (*single) Ordering() adapters.Ordering {
	return adapters.Ordering{MaxMessages: 100, PerGroup: 1, Static: true}
}

func (d *single) Deliver(ctx context.Context, _ string, batch []*message.Message) []error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var errs []error
	for i, msg := range batch {
		err := ctx.Err()
		if err != nil {
			err = outbox.Released(err)
		} else if d.refuses > 0 {
			d.refuses--
			err = outbox.Unavailable(errors.New("it is away"), 0)
		}
		if err == nil {
			d.taken = append(d.taken, Received{ID: msg.UUID, Type: msg.Metadata[outbox.MetaType], Position: msg.Metadata[outbox.MetaPosition],
				Lane: msg.Metadata[outbox.MetaLane], Payload: append([]byte{}, msg.Payload...)})
			continue
		}
		if errs == nil {
			errs = make([]error, len(batch))
		}
		errs[i] = err
	}
	return errs
}

// The suite gives a destination no more messages of a group at a time than its ordering allows.
func TestOneMessagePerGroup(t *testing.T) {
	t.Parallel()
	Destination(t, func(*testing.T) Harness {
		d := &single{}
		return Harness{Destination: d, Addresses: []string{"there"},
			Received: func(*testing.T, string) []Received {
				d.mu.Lock()
				defer d.mu.Unlock()
				return d.taken
			},
			Break: func(*testing.T) func() {
				d.refuses = 2
				return func() {}
			},
		}
	})
}
