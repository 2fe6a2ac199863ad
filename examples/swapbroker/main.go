// Command swapbroker delivers orders to the destination of its configuration file:
// to Kafka with orders-kafka.yaml, and likewise to NATS JetStream, RabbitMQ, Redis Streams
// and an HTTP API, or as signed webhooks. Only the destination differs between the files; the
// program is the same, and a relay that runs changes its broker when its file changes.
//
//	cd examples/swapbroker
//	go run ../../cmd/outrider init -c orders-kafka.yaml
//	go run . orders-kafka.yaml
//
// `init` creates the tables, in orders.db. Without any Go code, `outrider run -c orders-kafka.yaml` does the same.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/admin/operate"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: swapbroker CONFIG")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run delivers until ctx ends.
func run(ctx context.Context, file string) error {
	cfg, err := outrider.LoadConfig(file)
	if err != nil {
		return err
	}
	if _, err := operate.Init(ctx, cfg); err != nil {
		return err
	}
	relay, err := outrider.New(cfg)
	if err != nil {
		return err
	}
	return relay.Run(ctx)
}
