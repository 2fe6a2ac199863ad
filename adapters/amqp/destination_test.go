package amqp

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	rabbit "github.com/rabbitmq/amqp091-go"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/outbox/format"
)

func TestConfigurationsThatCannotWork(t *testing.T) {
	t.Parallel()
	_, err := New(Config{URL: "http://me:secret@x/", Exchange: strings.Repeat("x", 256), Timeout: time.Second, PerGroup: -1, Format: "yaml"})
	for _, want := range []string{"url: not a URL of AMQP", "routing key: none given", "exchange: longer", "timeout: 1s is too short", "per group: -1", "yaml"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
	if err != nil && strings.Contains(err.Error(), "secret") {
		t.Errorf("the error shows the password: %v", err)
	}
}

func TestRoutingKeys(t *testing.T) {
	t.Parallel()
	d := destination(t, Config{URL: "amqp://x/", RoutingKey: "{{.Type}}", Allowed: func(key string) bool { return key != "secret" }})
	for typ, ok := range map[string]bool{"orders.paid": true, "amq.gen": false, "secret": false, "a\nb": false, strings.Repeat("k", 255): true, strings.Repeat("k", 256): false} {
		msg := message.NewMessage("1", nil)
		msg.Metadata.Set(outbox.MetaType, typ)
		key, err := d.Address(msg)
		if ok != (err == nil) || ok && key != typ || !ok && outbox.KindOf(err) != outbox.KindPermanent {
			t.Errorf("type %.20q: %.20q, %v", typ, key, err)
		}
	}
}

// What AMQP cannot carry is dead, and nothing is sent of its group behind it.
func TestG2_WhatAMQPCannotCarryIsDead(t *testing.T) {
	t.Parallel()
	s := connect(t, testenv.RabbitMQ(t))
	queue := s.queue(t)
	d := destination(t, Config{URL: s.url, RoutingKey: queue, PerGroup: 10})
	var msgs []*message.Message
	for _, id := range []string{"a1", "a2", "a3", "b1", "b2", "c1", "d1"} {
		msgs = append(msgs, newMessage(id, id[:1], 1))
	}
	msgs[1].Metadata.Set(strings.Repeat("n", 256), "v")
	msgs[3].Metadata.Set("large", strings.Repeat("v", 128<<10))
	msgs[5].UUID = strings.Repeat("i", 256)
	errs := d.Deliver(t.Context(), queue, msgs)
	want := map[string]string{"a1": "ok", "a2": "permanent", "a3": "released", "b1": "permanent", "b2": "released", msgs[5].UUID: "permanent", "d1": "ok"}
	if got := results(msgs, errs); !maps.Equal(got, want) {
		t.Errorf("results %v, want %v: %v", got, want, errs)
	}
	if got := fmt.Sprint(s.ids(t, queue, "a"), s.ids(t, queue, "b"), s.ids(t, queue, "d")); got != "[a1] [] [d1]" {
		t.Errorf("arrived: %s", got)
	}
}

func TestFormats(t *testing.T) {
	t.Parallel()
	s := connect(t, testenv.RabbitMQ(t))
	for f, want := range map[format.Format]map[string]any{
		format.Watermill:   {watermillID: "id-1", outbox.MetaType: "test.happened", outbox.MetaGroup: "g"},
		format.Raw:         {"id": "id-1", "type": "test.happened", outbox.MetaGroup: "g"},
		format.CloudEvents: {"cloudEvents_id": "id-1", "cloudEvents_type": "test.happened", "cloudEvents_source": "outrider", "cloudEvents_specversion": "1.0"},
	} {
		t.Run(string(f), func(t *testing.T) {
			queue := s.queue(t)
			d := destination(t, Config{URL: s.url, RoutingKey: queue, Format: f})
			msg := newMessage("id-1", "g", 1)
			if err := d.Publish(queue, msg); err != nil {
				t.Fatal(err)
			}
			got := s.content(t, queue)
			if len(got) != 1 || got[0].MessageId != "id-1" || got[0].DeliveryMode != rabbit.Persistent || string(got[0].Body) != string(msg.Payload) {
				t.Fatalf("arrived: %+v", got)
			}
			for k, v := range want {
				if got[0].Headers[k] != v {
					t.Errorf("header %s is %v, want %v; all: %v", k, got[0].Headers[k], v, got[0].Headers)
				}
			}
			if json := f == format.CloudEvents; (got[0].ContentType == "application/json") != json || got[0].Headers[contentType] != nil {
				t.Errorf("content type %q, headers %v", got[0].ContentType, got[0].Headers)
			}
		})
	}
}

func TestCreateTopic(t *testing.T) {
	t.Parallel()
	s := connect(t, testenv.RabbitMQ(t))
	exchange, key := newName(t), newName(t)+".key"
	d := destination(t, Config{URL: s.url, Exchange: exchange, RoutingKey: key})
	t.Cleanup(func() {
		ch := s.channel(t)
		_, _ = ch.QueueDelete(key, false, false, false)
		_ = ch.ExchangeDelete(exchange, false, false)
	})
	for i, c := range []struct {
		topic   adapters.NewTopic
		created bool
	}{{adapters.NewTopic{Name: key, DryRun: true}, true}, {adapters.NewTopic{Name: key, Replicas: 1}, true}, {adapters.NewTopic{Name: key}, false}} {
		if created, err := d.CreateTopic(t.Context(), c.topic); err != nil || created != c.created {
			t.Fatalf("call %d: %v, %v", i, created, err)
		}
	}
	if _, err := d.CreateTopic(t.Context(), adapters.NewTopic{Name: "other"}); err == nil {
		t.Error("a queue was created that the destination does not deliver to")
	}
	if errs := d.Deliver(t.Context(), key, []*message.Message{newMessage("1", "a", 1)}); errs != nil {
		t.Fatal(errs)
	}
	if got := s.ids(t, key, "a"); fmt.Sprint(got) != "[1]" {
		t.Errorf("arrived: %v", got)
	}
	if err := d.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

// The doctor says what a queue may lose, and sends nothing that a queue would take.
func TestExamine(t *testing.T) {
	t.Parallel()
	s := connect(t, testenv.RabbitMQ(t))
	for kind, want := range map[string]string{"quorum": "ok is a quorum queue", "classic": "warning is a classic queue", "stream": "ok is a stream", "": `broken amqp: queue`} {
		t.Run(kind, func(t *testing.T) {
			name := newName(t)
			if kind != "" {
				s.make(t, name, rabbit.Table{rabbit.QueueTypeArg: kind})
			}
			var all []string
			for _, f := range destination(t, Config{URL: s.url, RoutingKey: name}).Examine(t.Context()) {
				all = append(all, f.Level.String()+" "+f.Text)
			}
			text := strings.Join(all, "\n")
			if !strings.Contains(text, want) || kind != "" && !strings.Contains(text, "RabbitMQ 3") {
				t.Errorf("findings:\n%s\nwant %q", text, want)
			}
			if kind == "quorum" || kind == "classic" {
				if n := len(s.content(t, name)); n != 0 {
					t.Errorf("%d messages of the doctor are in the queue", n)
				}
			}
		})
	}
	t.Run("exchange", func(t *testing.T) { // one that gives everything to its queue
		name := newName(t)
		ch := s.channel(t)
		if err := ch.ExchangeDeclare(name, "fanout", true, true, false, false, nil); err != nil {
			t.Fatal(err)
		}
		s.make(t, name, nil)
		if err := ch.QueueBind(name, "", name, false, nil); err != nil {
			t.Fatal(err)
		}
		f := destination(t, Config{URL: s.url, Exchange: name, RoutingKey: "key"}).Examine(t.Context())
		if last := f[len(f)-1]; last.Level != adapters.LevelUnknown || !strings.Contains(last.Text, "no queue has the name") {
			t.Errorf("findings: %+v", f)
		}
		if n := len(s.content(t, name)); n != 0 {
			t.Errorf("%d messages of the doctor are in the queue", n)
		}
	})
}

// A second alarm comes while the first lasts, and an end that nothing began: a broker with both alarms, or another one, may say so.
func TestAlarmsMayOverlap(t *testing.T) {
	t.Parallel()
	l := &link{blocked: make(chan struct{})}
	events := make(chan rabbit.Blocking)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.watch(events)
	}()
	free, err := l.state()
	if err != nil {
		t.Fatal(err)
	}
	events <- rabbit.Blocking{Active: false}
	events <- rabbit.Blocking{Active: true, Reason: "low on memory"}
	<-free // who waits since before the end that nothing began hears of the alarm
	events <- rabbit.Blocking{Active: true, Reason: "low on disk"}
	events <- rabbit.Blocking{Active: false}
	close(events)
	<-ended
	if _, err := l.state(); err != nil {
		t.Errorf("after the alarms: %v", err)
	}
}
