// Command relay is the least program that runs Outrider from a configuration
// file: what the tests of package faults start, kill and stop. It takes the
// command line of `outrider run`:
//
//	relay run -c outrider.yaml
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/outriderhq/outrider"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 || args[0] != "run" {
		return fmt.Errorf("usage: relay run -c FILE")
	}
	flags := flag.NewFlagSet("relay", flag.ContinueOnError)
	file := flags.String("c", "", "configuration file")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	cfg, err := outrider.LoadConfig(*file)
	if err != nil {
		return err
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(cfg.Log.Level)); err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	relay, err := outrider.New(cfg, outrider.WithLogger(log))
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	return relay.Run(ctx)
}
