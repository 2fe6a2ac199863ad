package faults_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/internal/testenv/natsserver"
	"github.com/outriderhq/outrider/outbox"
)

// natsBroker is a server of NATS with a stream. It writes to disk before it answers.
func natsBroker(t *testing.T) broker {
	s := natsserver.StartProcess(t)
	conn, err := nats.Connect(s.URL(), nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond))
	must(t, err)
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	must(t, err)
	_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders"}, AllowAtomicPublish: true})
	must(t, err)
	next := uint64(1)
	network := testenv.StartProxy(t, s.Address())
	return broker{server: s, network: network, section: fmt.Sprintf("type: nats, url: %q, subject: orders, timeout: 2s", "nats://"+network.Address()),
		source: fmt.Sprintf("type: nats, url: %q, stream: ORDERS, consumer: relay, workers: 1, ack_wait: 2s", s.URL()),
		content: reading(t, func(ctx context.Context, take func(id, group string)) error {
			stream, err := js.Stream(ctx, "ORDERS")
			if err != nil {
				return err
			}
			for ; ; next++ {
				msg, err := stream.GetMsg(ctx, next)
				if errors.Is(err, jetstream.ErrMsgNotFound) {
					return nil
				}
				if err != nil {
					return err
				}
				take(msg.Header.Get("_watermill_message_uuid"), msg.Header.Get(outbox.MetaGroup))
			}
		})}
}
