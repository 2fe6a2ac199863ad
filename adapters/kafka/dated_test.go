package kafka

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/outbox/format"
)

// dated returns a message of format debezium; a zero time is none.
func dated(id, group string, at time.Time) *message.Message {
	return adapters.NewMessage(&adapters.Row{ID: id, Type: "t", Group: group, Payload: []byte("{}"), OccurredAt: at}, "test/00")
}

// TestATimeThatTheTopicRefusesIsItsMessages has a topic refuse the time of some messages, which are dead; the others of the wave arrive.
func TestATimeThatTheTopicRefusesIsItsMessages(t *testing.T) {
	t.Parallel()
	b := connect(t, testenv.Kafka(t))
	for setting, refused := range map[string]time.Duration{
		"message.timestamp.after.max.ms": 2 * time.Hour, "message.timestamp.before.max.ms": -2 * time.Hour,
	} {
		for _, way := range []string{"idempotent", "exclusive"} {
			t.Run(setting+" "+way, func(t *testing.T) {
				t.Parallel()
				topic := b.topic(t, 2, map[string]string{setting: "3600000"})
				cfg := Config{Brokers: b.addrs, Topic: topic, Format: format.Debezium}
				if way == "exclusive" {
					cfg.Exclusive, cfg.TransactionalID, cfg.Timeout, cfg.Logger = true, topic, 10*time.Second, slog.New(slog.DiscardHandler)
				}
				d := through(t, destination(t, cfg), "orders/00")
				for _, bad := range []int{0, 13} { // the first one of a topic is sent alone
					var msgs []*message.Message
					want, arrive := map[string]string{}, []string{}
					for i := range 40 {
						at := time.Now()
						if i%4 == 3 {
							at = time.Time{}
						}
						id := fmt.Sprint(bad, "-", i)
						want[id] = "ok"
						if i == bad {
							at, want[id] = at.Add(refused), "permanent"
						} else {
							arrive = append(arrive, id)
						}
						msgs = append(msgs, dated(id, id, at))
					}
					errs := d.Deliver(t.Context(), topic, msgs)
					if got := results(msgs, errs); !maps.Equal(got, want) {
						t.Fatalf("results\n got %v\nwant %v: %v", got, want, errs)
					}
					for _, part := range []string{"occurred_at", setting, msgs[bad].UUID, msgs[bad].Metadata[outbox.MetaOccurredAt][:len("2006-01-02T15:04")]} {
						if !strings.Contains(errs[bad].Error(), part) {
							t.Errorf("%q does not name %s", errs[bad], part)
						}
					}
					var got []string
					for _, r := range b.records(t, topic) {
						if id := header(r, "id"); strings.HasPrefix(id, fmt.Sprint(bad, "-")) {
							got = append(got, id)
						}
					}
					slices.Sort(got)
					slices.Sort(arrive)
					if !slices.Equal(got, arrive) {
						t.Errorf("arrived: %v, want %v", got, arrive)
					}
				}
			})
		}
	}
}

// TestATimeOfTheClockIsNoMessages has the clock of this machine be two hours ahead: messages without a time wait.
func TestATimeOfTheClockIsNoMessages(t *testing.T) {
	t.Parallel()
	b := connect(t, testenv.Kafka(t))
	topic := b.topic(t, 1, map[string]string{"message.timestamp.after.max.ms": "3600000"})
	d := destination(t, Config{Brokers: b.addrs, Topic: topic, Format: format.Debezium})
	for name, at := range map[string]time.Time{"all": {}, "some": time.Now()} {
		w := d.newWave(topic, []*message.Message{dated("1", "a", at), dated("2", "b", time.Time{}), dated("3", "c", time.Time{})})
		before := w.made
		w.made = before.Add(2 * time.Hour)
		for i := range w.recs {
			if w.recs[i].Timestamp.Equal(before) {
				w.recs[i].Timestamp = w.made
			}
		}
		errs := d.send(t.Context(), d.pool, w)
		waits := 0
		for i, err := range errs {
			switch kind := outbox.KindOf(err); {
			case err == nil || kind == outbox.KindReleased:
			case kind == outbox.KindUnavailable && strings.Contains(err.Error(), "clock of this machine"):
				waits++
			default:
				t.Errorf("%s: message %d: %v, want that it waits for the clock", name, i+1, err)
			}
		}
		if waits == 0 {
			t.Errorf("%s: %v, want that the topic counts as down", name, errs)
		}
	}
}
