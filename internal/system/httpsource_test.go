package system_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"testing"

	wmhttp "github.com/ThreeDotsLabs/watermill-http/v2/pkg/http"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/internal/testenv"
)

// TestG1_APostedMessageIsAnsweredWhenItIsSettled runs a relay whose source is HTTP: the
// stock Publisher hears nothing until the destination has the message, and the port
// is closed when the relay has ended.
func TestG1_APostedMessageIsAnsweredWhenItIsSettled(t *testing.T) {
	t.Parallel()
	address := testenv.FreeAddress(t)
	cfg, err := outrider.ParseConfig("test", fmt.Appendf(nil, `
state: {url: %q}
sources: {in: {type: http, listen: %q, path: /events}}
destinations: {here: {type: publisher, topic: t}}
routes: {all: {from: in, to: here}}
`, filepath.Join(t.TempDir(), "state.db"), address))
	must(t, err)
	_, err = operate.Init(t.Context(), cfg)
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

// TestG1_AReloadTakesThePortOver: the former generation of an HTTP source gives its port up when it has drained, and the
// next one listens there. What is posted meanwhile is refused, and arrives when it is sent again.
func TestG1_AReloadTakesThePortOver(t *testing.T) {
	t.Parallel()
	address := testenv.FreeAddress(t)
	got := make(chan string, 1000)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.Header.Get("Message-Uuid") }))
	defer receiver.Close()
	state := filepath.Join(t.TempDir(), "state.db")
	config := func(drain string) *outrider.Config {
		cfg, err := outrider.ParseConfig("test", fmt.Appendf(nil, `
admin: {listen: off}
drain_timeout: %s
state: {url: %q}
sources: {in: {type: http, listen: %q, path: /events}}
destinations: {out: {type: http, url: %q, format: watermill}}
routes: {all: {from: in, to: out}}
`, drain, state, address, receiver.URL))
		must(t, err)
		return cfg
	}
	_, err := operate.Init(t.Context(), config("30s"))
	must(t, err)
	relay, err := outrider.New(config("30s"), outrider.WithLogger(slog.New(slog.DiscardHandler)))
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- relay.Run(ctx) }()
	<-relay.Ready()
	pub, err := wmhttp.NewPublisher(wmhttp.PublisherConfig{MarshalMessageFunc: wmhttp.DefaultMarshalMessageFunc}, nil)
	must(t, err)
	sent, stop := make(chan int), make(chan struct{})
	go func() {
		n := 0
		for {
			select {
			case <-stop:
				sent <- n
				return
			default:
			}
			if pub.Publish("http://"+address+"/events", message.NewMessage(strconv.Itoa(n), []byte("{}"))) == nil {
				n++
			}
		}
	}()
	seen := map[string]bool{}
	arrive := func(n int) {
		for end := len(seen) + n; len(seen) < end; {
			select {
			case id := <-got:
				seen[id] = true
			case err := <-done:
				t.Fatalf("the relay ended: %v", err)
			}
		}
	}
	arrive(3)
	for _, drain := range []string{"29s", "28s"} {
		must(t, relay.Reload(ctx, config(drain)))
		arrive(3)
	}
	close(stop)
	n := <-sent
	cancel()
	must(t, <-done)
	close(got)
	for id := range got {
		seen[id] = true
	}
	for i := range n {
		if !seen[strconv.Itoa(i)] {
			t.Errorf("message %d was answered and has not arrived", i)
		}
	}
}
