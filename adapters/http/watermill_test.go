package http

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	wmhttp "github.com/ThreeDotsLabs/watermill-http/v2/pkg/http"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/outbox/format"
)

// watermillMessages cover what the headers have to say.
func watermillMessages() []*message.Message {
	full := adapters.NewMessage(&adapters.Row{
		ID: "01J-full", Type: "order.created", Group: "order-1", Tags: map[string]string{"k": "v"},
		Headers: map[string]string{"traceparent": "00-1", "empty": "", "named": "Zoë\n\x7f<&>"},
		Payload: []byte("{ \"n\": 1.0 }"), Position: 9, OccurredAt: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC),
	}, "orders/07")
	binary := adapters.NewMessage(&adapters.Row{ID: "01J-bin", Type: "t", Payload: []byte{0, 0xff}, Binary: true}, "orders/00")
	return []*message.Message{full, binary, message.NewMessage("bare", []byte("x")), message.NewMessage("empty", nil)}
}

// stockSubscriber is a stock Subscriber that answers by verdict.
func stockSubscriber(t *testing.T, verdict func(*message.Message)) (url string) {
	t.Helper()
	sub, err := wmhttp.NewSubscriber("127.0.0.1:0", wmhttp.SubscriberConfig{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	msgs, err := sub.Subscribe(t.Context(), "/events")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = sub.StartHTTPServer() // says that it was closed
	}()
	go func() {
		for msg := range msgs {
			verdict(msg)
		}
	}()
	t.Cleanup(func() {
		_ = sub.Close()
		<-ended
	})
	for sub.Addr() == nil {
		if t.Context().Err() != nil {
			t.Fatal("the stock Subscriber does not listen")
		}
		time.Sleep(time.Millisecond)
	}
	return "http://" + sub.Addr().String() + "/events"
}

func TestStockSubscriberReadsOurs(t *testing.T) {
	t.Parallel()
	got := make(chan *message.Message, 10)
	url := stockSubscriber(t, func(m *message.Message) { got <- m; m.Ack() })
	d := destination(t, Config{URL: url, Format: format.Watermill})
	if o := d.Ordering(); o.MaxMessages != 1 {
		t.Fatalf("a request takes %d messages, want 1", o.MaxMessages)
	}
	for _, want := range watermillMessages() {
		if err := one(t, d, want); err != nil {
			t.Fatal(err)
		}
		msg := <-got
		if msg.UUID != want.UUID || !maps.Equal(msg.Metadata, want.Metadata) || string(msg.Payload) != string(adapters.PayloadOf(want)) {
			t.Errorf("the stock Subscriber reads %s %v %q, want %s %v %q", msg.UUID, msg.Metadata, msg.Payload, want.UUID, want.Metadata, want.Payload)
		}
	}
}

func TestANackOfAStockSubscriberIsAFailedAttempt(t *testing.T) {
	t.Parallel()
	url := stockSubscriber(t, func(m *message.Message) { m.Nack() })
	d := destination(t, Config{URL: url, Format: format.Watermill})
	if err := one(t, d, newMessage("a", "g")); outbox.KindOf(err) != outbox.KindTransient {
		t.Errorf("a nack is %v, want a transient error", err)
	}
}

func TestRequestsAreTheStockPublishers(t *testing.T) {
	t.Parallel()
	ours, theirs := newReceiver(t), newReceiver(t)
	d := destination(t, Config{URL: ours.URL, Format: format.Watermill})
	pub, err := wmhttp.NewPublisher(wmhttp.PublisherConfig{MarshalMessageFunc: wmhttp.DefaultMarshalMessageFunc}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, msg := range watermillMessages() {
		delete(msg.Metadata, "named") // net/http refuses DEL, so the stock Publisher cannot send it
		if err := one(t, d, msg); err != nil {
			t.Fatal(err)
		}
		out := msg.Copy()
		out.Payload = adapters.PayloadOf(msg)
		if err := pub.Publish(theirs.URL, out); err != nil {
			t.Fatal(err)
		}
	}
	got, want := ours.seen(), theirs.seen()
	for i := range want {
		for name := range want[i].header {
			if name == "User-Agent" {
				continue
			}
			if g, w := got[i].header.Get(name), want[i].header.Get(name); g != w && name != "Accept-Encoding" {
				t.Errorf("request %d: %s is %q, the stock Publisher sends %q", i, name, g, w)
			}
		}
		if got[i].body != want[i].body {
			t.Errorf("request %d: body is %q, the stock Publisher sends %q", i, got[i].body, want[i].body)
		}
		if ct := got[i].header.Get("Content-Type"); ct != "" {
			t.Errorf("request %d: Content-Type is %q, the stock Publisher sends none", i, ct)
		}
	}
}

func TestFormatWatermillTakesNoBatches(t *testing.T) {
	t.Parallel()
	if _, err := New(Config{URL: "http://127.0.0.1:1/", Format: format.Watermill, MaxMessages: 2}); err == nil {
		t.Error("a batch of two was taken")
	}
}

// subscribed listens on this machine, for one path.
func subscribed(t *testing.T, cfg SubscriberConfig) (s *Subscriber, msgs <-chan *message.Message) {
	t.Helper()
	if cfg.Listen == "" {
		cfg.Listen = "127.0.0.1:0"
	}
	s, err := NewSubscriber(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	ctx, end := context.WithCancel(t.Context())
	t.Cleanup(end)
	if msgs, err = s.Subscribe(ctx, "/events"); err != nil {
		t.Fatal(err)
	}
	return s, msgs
}

func TestOurSubscriberReadsTheStockPublishers(t *testing.T) {
	t.Parallel()
	s, msgs := subscribed(t, SubscriberConfig{})
	pub, err := wmhttp.NewPublisher(wmhttp.PublisherConfig{MarshalMessageFunc: wmhttp.DefaultMarshalMessageFunc}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range watermillMessages() {
		delete(want.Metadata, "named")
		answered := make(chan error, 1)
		go func() { answered <- pub.Publish("http://"+s.Addr().String()+"/events", want) }()
		msg := <-msgs
		if msg.UUID != want.UUID || !maps.Equal(msg.Metadata, want.Metadata) || string(msg.Payload) != string(want.Payload) {
			t.Errorf("we read %s %v %q, want %s %v %q", msg.UUID, msg.Metadata, msg.Payload, want.UUID, want.Metadata, want.Payload)
		}
		select {
		case err := <-answered:
			t.Errorf("answered before the verdict: %v", err)
		default:
		}
		if i%2 == 0 {
			msg.Ack()
		} else {
			msg.Nack()
		}
		if err := <-answered; (err == nil) != (i%2 == 0) {
			t.Errorf("after verdict %d the stock Publisher has %v", i%2, err)
		}
	}
}

// TestG1_OurSubscriberReadsOurDestination closes the circle: what our destination
// sends is what our subscriber reads.
func TestG1_OurSubscriberReadsOurDestination(t *testing.T) {
	t.Parallel()
	s, msgs := subscribed(t, SubscriberConfig{Tokens: []string{"old", "tok"}})
	d := destination(t, Config{URL: "http://" + s.Addr().String() + "/events", Format: format.Watermill, Token: "tok"})
	for _, want := range watermillMessages() {
		answered := make(chan error, 1)
		go func() { answered <- one(t, d, want) }()
		msg := <-msgs
		if msg.UUID != want.UUID || !maps.Equal(msg.Metadata, want.Metadata) || string(msg.Payload) != string(adapters.PayloadOf(want)) {
			t.Errorf("we read %s %v %q, want %s %v %q", msg.UUID, msg.Metadata, msg.Payload, want.UUID, want.Metadata, want.Payload)
		}
		msg.Ack()
		if err := <-answered; err != nil {
			t.Error(err)
		}
	}
}

func TestG1_WhatTheSubscriberRefuses(t *testing.T) {
	t.Parallel()
	s, _ := subscribed(t, SubscriberConfig{Tokens: []string{"tok"}, MaxBody: 4})
	for name, c := range map[string]struct {
		method, path, token, uuid, metadata, body string
		want                                      int
	}{
		"no token":            {"POST", "/events", "", "id", "", "x", 401},
		"wrong token":         {"POST", "/events", "no", "id", "", "x", 401},
		"another path":        {"POST", "/other", "tok", "id", "", "x", 404},
		"not a POST":          {"GET", "/events", "tok", "id", "", "", 405},
		"no UUID":             {"POST", "/events", "tok", "", "", "x", 400},
		"metadata is no JSON": {"POST", "/events", "tok", "id", "{", "x", 400},
		"too large":           {"POST", "/events", "tok", "id", "", "xxxxx", 413},
	} {
		req := httptest.NewRequest(c.method, "http://"+s.Addr().String()+c.path, strings.NewReader(c.body))
		req.RequestURI = ""
		if c.token != "" {
			req.Header.Set("Authorization", "Bearer "+c.token)
		}
		if c.uuid != "" {
			req.Header.Set(HeaderWatermillUUID, c.uuid)
		}
		if c.metadata != "" {
			req.Header.Set(HeaderWatermillMetadata, c.metadata)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(name, err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != c.want {
			t.Errorf("%s: %d, want %d", name, resp.StatusCode, c.want)
		}
	}
}

// More requests than may wait for their verdicts are refused at once, and none of them is a message; when there is room
// again, requests are taken.
func TestG7_TheSubscriberBoundsItsRequests(t *testing.T) {
	t.Parallel()
	s, msgs := subscribed(t, SubscriberConfig{MaxRequests: 2})
	pub, err := wmhttp.NewPublisher(wmhttp.PublisherConfig{MarshalMessageFunc: wmhttp.DefaultMarshalMessageFunc}, nil)
	if err != nil {
		t.Fatal(err)
	}
	publish := func(id string) error {
		return pub.Publish("http://"+s.Addr().String()+"/events", message.NewMessage(id, nil))
	}
	answered := make(chan error, 2)
	var waiting []*message.Message
	for _, id := range []string{"a", "b"} {
		go func() { answered <- publish(id) }()
		waiting = append(waiting, <-msgs)
	}
	if err := publish("c"); err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("a third request: %v, want 503", err)
	}
	for _, msg := range waiting {
		msg.Ack()
		if err := <-answered; err != nil {
			t.Error(err)
		}
	}
	go func() { answered <- publish("c") }()
	if msg := <-msgs; msg.UUID != "c" {
		t.Errorf("%s arrived, want c", msg.UUID)
	} else {
		msg.Ack()
	}
	if err := <-answered; err != nil {
		t.Error(err)
	}
}
