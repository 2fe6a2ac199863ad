package kafka

import (
	"context"
	"strings"
	"testing"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/internal/testenv"
)

// A destination creates its topic, once; and those that its template leads to and its rules allow.
func TestCreateTopic(t *testing.T) {
	t.Parallel()
	b := connect(t, testenv.Kafka(t))
	name := newName(t)
	t.Cleanup(func() { _, _ = b.adm.DeleteTopic(context.Background(), name) })
	d := destination(t, Config{Brokers: b.addrs, Topic: name})
	create := func(topic adapters.NewTopic, want bool) {
		t.Helper()
		if created, err := d.CreateTopic(t.Context(), topic); created != want || err != nil {
			t.Errorf("%+v: %v, %v; want %v", topic, created, err, want)
		}
	}
	refused := func(d *Destination, topic adapters.NewTopic, want string) {
		t.Helper()
		if created, err := d.CreateTopic(t.Context(), topic); created || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, %v; want %s", topic, created, err, want)
		}
	}
	create(adapters.NewTopic{Name: name, DryRun: true}, true)
	refused(d, adapters.NewTopic{Name: name, Replicas: 50}, "cannot be created")
	create(adapters.NewTopic{Name: name, Partitions: 3}, true)
	create(adapters.NewTopic{Name: name, Partitions: 5}, false)
	create(adapters.NewTopic{Name: name, DryRun: true}, false)
	b.awaitTopic(t, name)
	found, err := b.adm.ListTopics(t.Context(), name)
	if err != nil || len(found[name].Partitions) != 3 {
		t.Errorf("the topic has %d partitions, %v; want 3", len(found[name].Partitions), err)
	}
	refused(d, adapters.NewTopic{Name: name + "-other"}, "delivers to topic")

	prefix := name + "."
	template := destination(t, Config{Brokers: b.addrs, Topic: prefix + "{{.Type}}.v1", Allowed: func(topic string) bool { return topic != prefix+"payments.v1" }})
	for topic, want := range map[string]string{
		prefix + "orders.v2": "does not lead to", "orders.v1": "does not lead to", prefix + ".v1": "does not lead to", prefix + "v1": "does not lead to",
		prefix + "payments.v1": "none that the destination allows", prefix + "a b.v1": "not a valid topic name", prefix + "orders.v1": "",
	} {
		if want != "" {
			refused(template, adapters.NewTopic{Name: topic, DryRun: true}, want)
		} else if created, err := template.CreateTopic(t.Context(), adapters.NewTopic{Name: topic, DryRun: true}); !created || err != nil {
			t.Errorf("topic %s: %v, %v", topic, created, err)
		}
	}
	refused(destination(t, Config{Brokers: b.addrs, Topic: "{{.Type}}"}), adapters.NewTopic{Name: "__consumer_offsets"}, "begins with an underscore")
}

// Where no broker answers, that is the error.
func TestCreateTopicWithoutABroker(t *testing.T) {
	t.Parallel()
	d := destination(t, Config{Brokers: []string{"127.0.0.1:1"}, Topic: "orders"})
	if _, err := d.CreateTopic(t.Context(), adapters.NewTopic{Name: "orders"}); err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("the error is %v", err)
	}
}
