package amqp

import (
	"testing"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/adaptertest"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

func TestDestination(t *testing.T) {
	t.Parallel()
	adaptertest.Destination(t, func(t *testing.T) adaptertest.Harness {
		s := connect(t, testenv.RabbitMQ(t))
		p, through := newProxy(t, s.url)
		first, second, missing := s.queue(t), s.queue(t), newName(t)
		d := destination(t, Config{URL: through, RoutingKey: "{{.Type}}"})
		return adaptertest.Harness{
			Destination: d,
			Addresses:   []string{first, second},
			Received: func(t *testing.T, queue string) (out []adaptertest.Received) {
				for _, m := range s.content(t, queue) {
					text := func(key string) string { v, _ := m.Headers[key].(string); return v }
					out = append(out, adaptertest.Received{ID: m.MessageId, Type: text("type"), Position: text(outbox.MetaPosition),
						Lane: text(outbox.MetaLane), Payload: append([]byte{}, m.Body...)})
				}
				return out
			},
			Missing: missing,
			Create: func(t *testing.T) {
				if _, err := d.CreateTopic(t.Context(), adapters.NewTopic{Name: missing}); err != nil {
					t.Fatal(err)
				}
			},
			Hang:  func(*testing.T) func() { return p.Hang() },
			Break: func(*testing.T) func() { return p.Down() },
		}
	})
}
