package outrider_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"testing"

	wmhttp "github.com/ThreeDotsLabs/watermill-http/v2/pkg/http"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/admin"
)

// TestG1_APostedMessageIsAnsweredWhenItIsSettled runs a relay whose source is HTTP: the
// stock Publisher hears nothing until the destination has the message, and the port
// is closed when the relay has ended.
func TestG1_APostedMessageIsAnsweredWhenItIsSettled(t *testing.T) {
	t.Parallel()
	free, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	address := free.Addr().String()
	must(t, free.Close())
	cfg, err := outrider.ParseConfig("test", fmt.Appendf(nil, `
state: {url: %q}
sources: {in: {type: http, listen: %q, path: /events}}
destinations: {here: {type: publisher, topic: t}}
routes: {all: {from: in, to: here}}
`, filepath.Join(t.TempDir(), "state.db"), address))
	must(t, err)
	_, err = admin.Init(t.Context(), cfg)
	must(t, err)
	got := make(arrivals) // unbuffered: a delivery waits for the test
	relay, err := outrider.New(cfg, outrider.WithBatchDestination("here", got))
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- relay.Run(ctx) }()
	<-relay.Ready()
	pub, err := wmhttp.NewPublisher(wmhttp.PublisherConfig{MarshalMessageFunc: wmhttp.DefaultMarshalMessageFunc}, nil)
	must(t, err)
	answered := make(chan error, 1)
	send := func(id string) {
		for {
			err := pub.Publish("http://"+address+"/events", message.NewMessage(id, []byte("{}")))
			if _, down := errors.AsType[*net.OpError](err); !down || t.Context().Err() != nil {
				answered <- err
				return
			} // it does not listen yet
		}
	}
	for _, id := range []string{"a", "b"} {
		go send(id)
		select {
		case err := <-answered:
			t.Fatalf("answered before it was delivered: %v", err)
		case arrived := <-got:
			if arrived != id {
				t.Errorf("%s arrived, want %s", arrived, id)
			}
		}
		must(t, <-answered)
	}
	cancel()
	must(t, <-done)
	if err := pub.Publish("http://"+address+"/events", message.NewMessage("c", nil)); err == nil {
		t.Error("a relay that has ended took a message")
	}
}
