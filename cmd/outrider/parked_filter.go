package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/config"
)

// parkedFilter is the flags that select parked messages.
type parkedFilter struct {
	adapters.ParkedFilter

	olderThan string
	statuses  []string // that --status may name
}

// flags adds the flags to a command.
func (f *parkedFilter) flags(a *app, c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.Route, "route", "", "only of this route")
	_ = c.RegisterFlagCompletionFunc("route", a.completeRoutes)
	flags.StringVar(&f.Group, "group", "", "only of this group")
	flags.StringVar(&f.Type, "type", "", "only of this event type")
	flags.StringVar(&f.Error, "error", "", "only with this `text` in the last error, in any case")
	flags.StringVar(&f.olderThan, "older-than", "", "only parked longer ago than this `duration`, such as 90m or 30d")
}

// statusFlag adds --status to a command that has a choice.
func (f *parkedFilter) statusFlag(c *cobra.Command, statuses ...string) {
	f.statuses = statuses
	c.Flags().StringVar((*string)(&f.Status), "status", "", "only with this status: "+strings.Join(statuses, ", "))
	_ = c.RegisterFlagCompletionFunc("status", cobra.FixedCompletions(statuses, cobra.ShellCompDirectiveNoFileComp))
}

// read refuses flags that cannot mean anything.
func (f *parkedFilter) read() error {
	if f.Status != "" && !slices.Contains(f.statuses, string(f.Status)) {
		return wrong("--status %q is none of %s", f.Status, strings.Join(f.statuses, ", "))
	}
	if f.olderThan == "" {
		return nil
	}
	d, err := config.ParseDuration(f.olderThan)
	if err != nil {
		return wrong("--older-than %q: %w", f.olderThan, err)
	}
	f.Before = time.Now().Add(-d.Std())
	return nil
}

// check is read, and refuses a route that does not exist. The state may
// remember routes that the configuration no longer has.
func (f *parkedFilter) check(ctx context.Context, cfg *config.Config, op *operate.Operator) error {
	if err := f.read(); err != nil || f.Route == "" {
		return err
	}
	var names []string
	for _, r := range cfg.Routes {
		names = append(names, r.Name)
	}
	if slices.Contains(names, f.Route) {
		return nil
	}
	lanes, err := op.Lanes(ctx)
	if err != nil {
		return err
	}
	for _, l := range lanes {
		if l.Route == f.Route {
			return nil
		}
	}
	return wrong("there is no route %q: the configuration has %s", f.Route, strings.Join(names, ", "))
}
