package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/outriderhq/outrider/demo"
)

func (a *app) demoCommand() *cobra.Command {
	var options demo.Options
	var show bool
	c := &cobra.Command{
		Use:   "demo",
		Short: "Run a complete system in this process, without a server or a configuration",
		Long: `A small shop commits orders and outbox rows to an SQLite file in a temporary folder.
Outrider delivers them by HTTP to receivers in this process; some of them fail for a
while. At the end the demo compares what arrived with what the shop committed. Exit
status 0 means that nothing was lost, delivered twice or out of order.`,
		Args: noArgs,
	}
	out := outputFlag(c)
	flags := c.Flags()
	flags.DurationVar(&options.For, "for", 0, "stop after this time, for example 10s; default: run until Ctrl-C")
	flags.Float64Var(&options.Rate, "rate", demo.DefaultRate, "orders per second")
	flags.StringVar(&options.To, "to", "", "deliver to a broker instead, and read back from it: kafka://HOST:PORT, nats://, amqp:// or redis://")
	flags.BoolVar(&show, "show-config", false, "print the configuration of the demo and exit")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if show {
			fmt.Fprint(a.out, demo.Config())
			return nil
		}
		if options.For < 0 || options.Rate <= 0 {
			return wrong("--for and --rate must be more than 0")
		}
		return a.demo(c.Context(), options, out.json())
	}
	return c
}

func (a *app) demo(ctx context.Context, options demo.Options, machine bool) error {
	options.Logger, options.Out = a.logger(nil, "error"), a.out
	if machine {
		options.Out = a.err
	}
	options.Live = terminal(options.Out)
	begin := time.Now()
	say := func(text string) { fmt.Fprintln(a.err, text) }
	return untilSignal(ctx, say, func(ctx context.Context) error {
		tally, err := demo.Run(ctx, options)
		if err != nil {
			return err
		}
		if machine {
			if err := a.printJSON(tally); err != nil {
				return err
			}
		}
		if !tally.Clean() {
			return errors.New("messages were lost, duplicated or out of order, after " + time.Since(begin).Round(time.Second).String())
		}
		return nil
	})
}
