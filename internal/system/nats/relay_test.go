// Package nats_test runs whole relays with servers of NATS, which only its test program links.
package nats_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wm "github.com/ThreeDotsLabs/watermill-nats/v2/pkg/nats"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/internal/testenv/natsserver"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestG1_ARelayBetweenStreams runs a relay from one stream to another, and stops and starts it on the way: what Watermill's Publisher
// wrote arrives once and in order.
func TestG1_ARelayBetweenStreams(t *testing.T) {
	t.Parallel()
	s := natsserver.Start(t, func(*server.Options) {})
	conn, err := natsgo.Connect(s.ClientURL())
	must(t, err)
	defer conn.Close()
	js, err := jetstream.New(conn)
	must(t, err)
	for _, name := range []string{"in", "out"} {
		_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: name, Subjects: []string{name}, AllowAtomicPublish: true})
		must(t, err)
	}
	cfg, err := outrider.ParseConfig("test", fmt.Appendf(nil, `
admin: {listen: off}
state: {url: %q}
sources: {in: {type: nats, url: %q, stream: in, ack_wait: 1s}}
destinations: {out: {type: nats, url: %q, subject: out}}
routes: {all: {from: in, to: out}}
`, filepath.Join(t.TempDir(), "state.db"), s.ClientURL(), s.ClientURL()))
	must(t, err)
	_, err = operate.Init(t.Context(), cfg)
	must(t, err)
	pub, err := wm.NewPublisher(wm.PublisherConfig{URL: s.ClientURL()}, watermill.NopLogger{})
	must(t, err)
	defer func() { _ = pub.Close() }()
	out, err := js.Stream(t.Context(), "out")
	must(t, err)
	const rounds, each = 4, 40
	var want []string
	for round := range rounds {
		relay, err := outrider.New(cfg, outrider.WithLogger(slog.New(slog.DiscardHandler)))
		must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- relay.Run(ctx) }()
		for i := range each {
			msg := message.NewMessage(fmt.Sprintf("%d-%03d", round, i), fmt.Appendf(nil, `{"n": %d}`, i))
			want = append(want, msg.UUID)
			must(t, pub.Publish("in", msg))
		}
		least := uint64(round*each + each/2) // the relay stops while the others wait
		if round == rounds-1 {
			least = rounds * each
		}
		for info, err := out.Info(t.Context()); err != nil || info.State.Msgs < least; info, err = out.Info(t.Context()) {
			select {
			case err := <-done:
				t.Fatalf("the relay ended: %v", err)
			case <-time.After(5 * time.Millisecond): // between two looks
			}
		}
		cancel()
		must(t, <-done)
	}
	var got []string
	for seq := range uint64(len(want)) {
		msg, err := out.GetMsg(t.Context(), seq+1)
		must(t, err)
		got = append(got, msg.Header.Get(wm.WatermillUUIDHdr))
	}
	if !slices.Equal(got, want) {
		t.Errorf("arrived: %v", got)
	}
}
