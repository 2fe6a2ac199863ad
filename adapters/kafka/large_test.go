package kafka

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/internal/testenv"
)

// A record that is larger than the batches which every topic takes is sent if its own topic takes it, in its place in its group, and also after
// the topic was changed. What no topic takes is dead, and the error names what to change.
func TestLargeRecordsFollowTheirTopic(t *testing.T) {
	t.Parallel()
	b := connect(t, testenv.Kafka(t))
	topic := b.topic(t, 1, map[string]string{"max.message.bytes": "4194304"})
	for _, compression := range []string{"none", "zstd"} {
		d := destination(t, Config{Brokers: b.addrs, Topic: topic, Compression: compression})
		msgs := []*message.Message{
			newMessage("1", "a", 10), newMessage("2", "a", 3<<20), newMessage("3", "a", 10), newMessage("4", "b", 10),
			newMessage("5", "c", 5<<20), newMessage("6", "c", 10),
		}
		errs := d.Deliver(t.Context(), topic, msgs)
		want := map[string]string{"1": "ok", "2": "ok", "3": "released", "4": "ok", "5": "permanent", "6": "released"}
		if got := results(msgs, errs); !maps.Equal(got, want) {
			t.Fatalf("results %v, want %v: %v", got, want, errs)
		}
		if text := errs[4].Error(); !strings.Contains(text, "4194304 allowed: raise max.message.bytes of topic") || strings.Contains(text, "destination") {
			t.Errorf("error %v", errs[4])
		}
		if errs := d.Deliver(t.Context(), topic, msgs[2:3]); errs != nil {
			t.Error(errs)
		}
	}
	if got := fmt.Sprint(b.ids(t, topic, "a")); got != "[1 2 3 1 2 3]" {
		t.Errorf("arrived: %s", got)
	}
}
