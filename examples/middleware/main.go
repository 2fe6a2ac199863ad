// Command middleware composes Watermill middleware per route in Go: partners get
// orders with a correlation id and without the customer's e-mail address, the
// archive gets them unchanged. Both routes read one outbox table; what the
// configuration lists for a route (here the default: poison, retry, timeout)
// wraps the middleware that the program adds.
//
// It needs no server:
//
//	go run ./examples/middleware
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/outbox"
)

// config has the placeholders DB and API, which are filled in at run time.
const config = `
admin: {listen: off}
sources:
  app: {type: sqlite, path: "DB"}
destinations:
  partners: {type: http, url: "http://API/partners", format: cloudevents}
  archive: {type: http, url: "http://API/archive", format: cloudevents}
routes:
  partners: {from: app, to: partners}
  archive: {from: app, to: archive}
`

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// withoutEmail takes the e-mail address out of a payload. The payload is shared
// with the other route: a new one is set, the old one is left as it is.
func withoutEmail(next message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		var fields map[string]any
		if err := json.Unmarshal(msg.Payload, &fields); err != nil {
			return nil, outbox.Permanent(err) // trying again would not help
		}
		delete(fields, "email")
		payload, err := json.Marshal(fields)
		if err != nil {
			return nil, outbox.Permanent(err)
		}
		msg.Payload = payload
		return next(msg)
	}
}

// correlated gives messages without correlation id their event id as such.
func correlated(next message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		middleware.SetCorrelationID(msg.UUID, msg)
		return next(msg)
	}
}

// run publishes an order and shows what the two receivers get.
func run(ctx context.Context, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "outrider-example-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	api, arrivals, err := listen(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, api.Close()) }()
	text := strings.NewReplacer("DB", filepath.Join(dir, "app.db"), "API", api.Addr).Replace(config)
	cfg, err := outrider.ParseConfig("example", []byte(text))
	if err != nil {
		return err
	}
	if _, err := operate.Init(ctx, cfg); err != nil {
		return err
	}
	envelope, err := outbox.New("order.placed").ID("event-1").
		JSON(map[string]any{"order": 1, "email": "heron@example.com"}).Build()
	if err != nil {
		return err
	}
	// An application publishes in its own transaction: see example watermillsql.
	if err := operate.Publish(ctx, cfg, "app", envelope); err != nil {
		return err
	}
	relay, err := outrider.New(cfg,
		outrider.WithMiddleware("partners", middleware.Recoverer, middleware.CorrelationID, correlated, withoutEmail),
		outrider.WithMiddleware("archive", middleware.NewThrottle(1000, time.Second).Middleware))
	if err != nil {
		return err
	}
	return show(ctx, relay, arrivals, out)
}

// arrival is an event that a receiver got.
type arrival struct{ path, event string }

// show runs the relay until both receivers have the order.
func show(ctx context.Context, relay *outrider.Outrider, arrivals <-chan arrival, out io.Writer) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- relay.Run(ctx) }()
	got := map[string]string{}
	for len(got) < 2 {
		select {
		case a := <-arrivals:
			got[a.path] = a.event
		case err := <-ended:
			return errors.Join(errors.New("the relay ended early"), err)
		}
	}
	stop()
	fmt.Fprintf(out, "partners got %s\narchive got %s\n", got["/partners"], got["/archive"])
	return <-ended
}

// listen starts the receivers' server on a free port.
func listen(ctx context.Context) (*http.Server, <-chan arrival, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	arrivals := make(chan arrival, 10)
	server := &http.Server{Addr: listener.Addr().String(), ReadHeaderTimeout: 5 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			arrivals <- arrival{r.URL.Path, string(body)}
		})}
	go func() { _ = server.Serve(listener) }() // ends with Close
	return server, arrivals, nil
}
