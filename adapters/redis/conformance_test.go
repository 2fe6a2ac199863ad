package redis

import (
	"testing"

	"github.com/ThreeDotsLabs/watermill-redisstream/pkg/redisstream"

	"github.com/outriderhq/outrider/adapters/adaptertest"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/outbox/format"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	for _, f := range []format.Format{format.Watermill, format.Raw, format.CloudEvents} {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			adaptertest.Destination(t, func(t *testing.T) adaptertest.Harness { return harness(t, f) })
		})
	}
}

// fieldNames are where each format keeps what identifies a message.
var fieldNames = map[format.Format][4]string{
	format.Raw:         {"id", "type", outbox.MetaPosition, outbox.MetaLane},
	format.CloudEvents: {"ce_id", "ce_type", "ce_outriderposition", "ce_outriderlane"},
}

func harness(t *testing.T, f format.Format) adaptertest.Harness {
	s := testenv.StartRedis(t)
	c := client(t, s.Address())
	return adaptertest.Harness{
		Destination: destination(t, Config{Servers: at(s.Address()), Stream: "{{.Type}}", Format: f}),
		Addresses:   []string{"orders", "payments"},
		Received: func(t *testing.T, stream string) (got []adaptertest.Received) {
			for _, e := range entries(t, c, stream) {
				got = append(got, received(t, f, e.Values))
			}
			return got
		},
		Hang: func(*testing.T) func() {
			s.Freeze()
			return s.Thaw
		},
		Break: func(*testing.T) func() {
			s.Kill()
			return s.Start
		},
	}
}

func received(t *testing.T, f format.Format, values map[string]any) adaptertest.Received {
	t.Helper()
	text := func(field string) string {
		s, _ := values[field].(string)
		return s
	}
	if f == format.Watermill {
		msg, err := redisstream.DefaultMarshallerUnmarshaller{}.Unmarshal(values)
		if err != nil {
			t.Fatal(err)
		}
		return adaptertest.Received{ID: msg.UUID, Type: msg.Metadata[outbox.MetaType], Position: msg.Metadata[outbox.MetaPosition],
			Lane: msg.Metadata[outbox.MetaLane], Payload: msg.Payload}
	}
	names := fieldNames[f]
	got := adaptertest.Received{ID: text(names[0]), Type: text(names[1]), Position: text(names[2]), Lane: text(names[3])}
	if payload, ok := values["payload"].(string); ok {
		got.Payload = []byte(payload)
	}
	return got
}
