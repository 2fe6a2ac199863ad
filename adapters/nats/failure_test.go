package nats

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/internal/testenv/natsserver"
	"github.com/outriderhq/outrider/outbox"
)

// deliverAll sends messages until all are delivered, as a lane does, and calls delivered with how many more are. It fails on a result
// that costs an attempt.
func deliverAll(t *testing.T, d *Destination, subject string, msgs []*message.Message, delivered func(int)) {
	for len(msgs) > 0 && t.Context().Err() == nil {
		wave := msgs[:min(len(msgs), 50)]
		errs := d.Deliver(t.Context(), subject, wave)
		var left []*message.Message
		held := map[string]bool{}
		for i, msg := range wave {
			group := msg.Metadata[outbox.MetaGroup]
			if errs == nil || errs[i] == nil {
				if held[group] {
					t.Errorf("message %s was delivered, and one before it in its group was not", msg.UUID)
				}
				continue
			}
			if kind := outbox.KindOf(errs[i]); kind != outbox.KindUnavailable && kind != outbox.KindReleased {
				t.Errorf("message %s: %v", msg.UUID, errs[i])
			}
			left, held[group] = append(left, msg), true
		}
		delivered(len(wave) - len(left))
		if len(left) > 0 {
			time.Sleep(20 * time.Millisecond) // as a probe waits; nothing depends on how long
		}
		msgs = append(left, msgs[len(wave):]...)
	}
}

// Lanes deliver while the server is killed and restarted: each message is stored once, and in the order of its group.
func TestG2_OrderAcrossKillsOfTheServer(t *testing.T) {
	t.Parallel()
	for _, atomic := range []bool{true, false} {
		t.Run(map[bool]string{true: "batches", false: "single"}[atomic], func(t *testing.T) {
			t.Parallel()
			kills(t, atomic)
		})
	}
}

func kills(t *testing.T, batches bool) {
	const lanes, groups, each = 4, 5, 60
	n := testenv.Brief(3, 50)
	p := natsserver.StartProcess(t)
	js := admin(t, p.URL())
	createStream(t, js, "S", []string{"s"}, func(cfg *jetstream.StreamConfig) { cfg.AllowAtomicPublish = batches })
	d := destination(t, p.URL(), Config{Subject: "s", Timeout: 5 * time.Second})
	var total atomic.Int64
	progress := make(chan struct{}, 1)
	var wg sync.WaitGroup
	for lane := range lanes {
		wg.Go(func() {
			var msgs []*message.Message
			for i := range each * n {
				group := fmt.Sprintf("%d-%d", lane, i%groups)
				msgs = append(msgs, newMessage(fmt.Sprintf("%s-%05d", group, i), group, 100))
			}
			deliverAll(t, d, "s", msgs, func(more int) {
				total.Add(int64(more))
				select {
				case progress <- struct{}{}:
				default:
				}
			})
		})
	}
	for k := range n {
		for total.Load() < int64(k*lanes*each) {
			<-progress
		}
		p.Kill()
		p.Start()
	}
	wg.Wait()
	var all []string
	for lane := range lanes {
		for group := range groups {
			got := ids(t, js, "s", fmt.Sprintf("%d-%d", lane, group))
			if !slices.IsSorted(got) || len(slices.Compact(got)) != each*n/groups {
				t.Errorf("group %d-%d has %d messages, want %d once and in order", lane, group, len(got), each*n/groups)
			}
			all = append(all, got...)
		}
	}
	if len(all) != lanes*each*n {
		t.Errorf("%d messages are stored, want %d", len(all), lanes*each*n)
	}
}

// proxied is a destination behind a network that has a connection, and a stream.
func proxied(t *testing.T, timeout time.Duration) (d *Destination, proxy *testenv.Proxy, subject string, js jetstream.JetStream) {
	name, js := streamOf(t, shared.url, nil)
	proxy = testenv.StartProxy(t, strings.TrimPrefix(shared.url, "nats://"))
	subject = name + ".a"
	d = destination(t, "nats://"+proxy.Address(), Config{Subject: subject, Timeout: timeout})
	if errs := d.Deliver(t.Context(), subject, []*message.Message{newMessage("0", "g", 1)}); errs != nil {
		t.Fatal(errs)
	}
	return d, proxy, subject, js
}

// await returns when the stream has so many messages of a subject.
func await(t *testing.T, js jetstream.JetStream, subject string, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for len(stored(t, js, subject)) < n {
		if ctx.Err() != nil {
			t.Fatalf("%d messages are not stored", n)
		}
		time.Sleep(5 * time.Millisecond) // between two looks
	}
}

func someMessages(n int) (msgs []*message.Message, want []string) {
	want = []string{"0"}
	for i := range n {
		id := strconv.Itoa(i + 1)
		msgs, want = append(msgs, newMessage(id, "g", 10)), append(want, id)
	}
	return msgs, want
}

// The connection is lost, or the answer does not come in time, after the server has stored the wave: its outcome is unknown, and when it is sent again
// each message is there once.
func TestTheAnswerIsLost(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		timeout time.Duration
		cut     bool
		want    string
	}{"cut": {time.Minute, true, "connection was lost before the answer"}, "slow": {300 * time.Millisecond, false, "were not acknowledged within 300ms"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, proxy, subject, js := proxied(t, c.timeout)
			msgs, want := someMessages(20)
			release := proxy.Hang()
			results := make(chan []error)
			go func() { results <- d.Deliver(t.Context(), subject, msgs) }()
			await(t, js, subject, len(want))
			if c.cut {
				proxy.Cut()
			}
			errs := <-results
			release()
			for _, err := range errs {
				if outbox.KindOf(err) != outbox.KindUnavailable {
					t.Fatalf("an unknown outcome is %v", err)
				}
				wantError(t, err, c.want)
			}
			deliverAll(t, d, subject, msgs, func(int) {})
			if got := ids(t, js, subject, "g"); !slices.Equal(got, want) {
				t.Errorf("the stream has %v", got)
			}
			if d.Duplicates() != int64(len(msgs)) {
				t.Errorf("%d duplicates were counted", d.Duplicates())
			}
		})
	}
}

// A stream that is deleted, full or changed keeps messages waiting, or takes them in the way that is left.
func TestTheStreamChanges(t *testing.T) {
	t.Parallel()
	name, js := streamOf(t, shared.url, nil)
	subject := name + ".a"
	d := destination(t, shared.url, Config{Subject: subject, Timeout: 5 * time.Second})
	msgs, _ := someMessages(10)
	deliver := func(from int, want string) {
		t.Helper()
		errs := d.Deliver(t.Context(), subject, msgs[from:from+2])
		if want == "" && errs != nil || want != "" && errs == nil {
			t.Fatalf("messages from %d on: %v, want %q", from, errs, want)
		}
		for _, err := range errs {
			wantError(t, err, want)
			if outbox.KindOf(err) != outbox.KindUnavailable {
				t.Errorf("messages from %d on: %v", from, err)
			}
		}
	}
	update := func(change func(*jetstream.StreamConfig)) {
		t.Helper()
		cfg := jetstream.StreamConfig{Name: name, Subjects: []string{name + ".>"}, AllowAtomicPublish: true}
		change(&cfg)
		if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
	}
	deliver(0, "")
	update(func(cfg *jetstream.StreamConfig) { cfg.AllowAtomicPublish = false })
	deliver(2, "")
	update(func(cfg *jetstream.StreamConfig) { cfg.MaxMsgs, cfg.Discard = 4, jetstream.DiscardNew })
	deliver(4, "maximum messages exceeded")
	update(func(cfg *jetstream.StreamConfig) {
		cfg.MaxMsgs, cfg.Discard, cfg.AllowAtomicPublish = 4, jetstream.DiscardNew, false
	})
	deliver(4, "maximum messages exceeded")
	update(func(*jetstream.StreamConfig) {})
	deliver(4, "")
	if err := js.DeleteStream(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	deliver(6, "no stream covers subject")
	createStream(t, js, name, []string{name + ".>"}, nil)
	deliver(6, "")
	if got := ids(t, js, subject, "g"); !slices.Equal(got, []string{"7", "8"}) {
		t.Errorf("the stream has %v", got)
	}
}
