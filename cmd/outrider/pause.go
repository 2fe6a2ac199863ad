package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/config"
)

// pausing is a call of pause or resume.
type pausing struct {
	route, address, group, reason, by string
	wait                              time.Duration
	machine                           bool
}

// target is what is paused.
func (p *pausing) target() adapters.Pause {
	return adapters.Pause{Route: p.route, Address: p.address, Group: p.group, Reason: p.reason, By: cmp.Or(p.by, currentUser())}
}

// check refuses an address and a group at once, and an empty one: it would be all of the route.
func (p *pausing) check(c *cobra.Command) error {
	for name, value := range map[string]string{"address": p.address, "group": p.group} {
		if c.Flags().Changed(name) && value == "" {
			return wrong("--%s is empty: give it a value, or leave it out for the whole route", name)
		}
	}
	if p.address != "" && p.group != "" {
		return wrong("--address and --group exclude each other")
	}
	return nil
}

// pauseResult is what pause and resume did, for machines.
type pauseResult struct {
	Route   string `json:"route"`
	Address string `json:"address,omitempty"`
	Group   string `json:"group,omitempty"`
	Changed bool   `json:"changed"` // false: it was so already
	AtRest  *bool  `json:"at_rest,omitempty"`
}

func (a *app) pauseCommand() *cobra.Command {
	var p pausing
	c := &cobra.Command{
		Use:   "pause ROUTE",
		Short: "Stop a route, or an address or a group of it, until it is resumed",
		Long: `Pauses a route: its instances stop reading, settle the messages in flight and
release their lanes, so that nothing is lost or delivered twice. They notice the pause
within two seconds, or a quarter of the lease if that is less. The command returns when nothing is in flight. The pause
stays in effect across restarts.

With --address it pauses only that address (a topic or URL, as "outrider status" shows
it): its messages wait, all others are delivered. With --group it pauses only that
group in the same way; a message that is being sent is finished.`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeRoutes,
	}
	flags := c.Flags()
	flags.StringVar(&p.address, "address", "", "only this address of the route")
	flags.StringVar(&p.group, "group", "", "only this group of the route, as \"outrider parked list\" shows it")
	flags.StringVar(&p.reason, "reason", "", "why; shown by status")
	flags.StringVar(&p.by, "by", "", "recorded in the audit log as the author; default: the user of this process")
	flags.DurationVar(&p.wait, "wait", time.Minute, "how long to wait until nothing is in flight; 0: do not wait")
	out := outputFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		p.route, p.machine = args[0], out.json()
		if err := p.check(c); err != nil {
			return err
		}
		return a.operate(c.Context(), func(_ *config.Config, op *operate.Operator) error {
			return a.pause(c.Context(), op, p)
		})
	}
	return c
}

func (a *app) pause(ctx context.Context, op *operate.Operator, p pausing) error {
	changed, err := op.Pause(ctx, p.target())
	if err != nil {
		return unknownRoute(err)
	}
	result := pauseResult{Route: p.route, Address: p.address, Group: p.group, Changed: changed}
	if p.address == "" && p.group == "" {
		rests, err := a.untilAtRest(ctx, op, p)
		if err != nil {
			return err
		}
		result.AtRest = &rests
	}
	if p.machine {
		err = a.printJSON(result)
	} else {
		fmt.Fprintln(a.out, result.pausedText())
	}
	if result.AtRest != nil && !*result.AtRest && p.wait > 0 {
		err = errors.Join(err, fmt.Errorf("messages are still in flight after %v; the route stays paused: see `outrider status --lanes`", p.wait))
	}
	return err
}

// untilAtRest waits until no instance runs the route.
func (a *app) untilAtRest(ctx context.Context, op *operate.Operator, p pausing) (bool, error) {
	waiting, cancel := context.WithTimeout(ctx, p.wait)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		rests, err := op.AtRest(ctx, p.route)
		if rests || err != nil || p.wait <= 0 {
			return rests, err
		}
		select {
		case <-tick.C:
		case <-waiting.Done():
			return false, ctx.Err()
		}
	}
}

func (r pauseResult) pausedText() string {
	what := "route " + r.Route
	if r.Address != "" {
		what = "address " + r.Address + " of route " + r.Route
	} else if r.Group != "" {
		what = "group " + strconv.Quote(r.Group) + " of route " + r.Route
	}
	text := what + " is paused"
	if !r.Changed {
		text = what + " was paused already"
	}
	switch {
	case r.AtRest == nil:
		return text
	case *r.AtRest:
		return text + "; nothing in flight"
	}
	return text + "; messages in flight are being finished"
}

func (a *app) resumeCommand() *cobra.Command {
	var p pausing
	c := &cobra.Command{
		Use:   "resume ROUTE",
		Short: "Resume a paused route, or an address or a group of it",
		Long: `Ends a pause. A running instance resumes a route within a second, and an address or a
group within two. An address that answered 410 (Gone) was paused by
the relay; this command resumes it too.`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeRoutes,
	}
	flags := c.Flags()
	flags.StringVar(&p.address, "address", "", "only this address of the route, as status shows it")
	flags.StringVar(&p.group, "group", "", "only this group of the route")
	flags.StringVar(&p.by, "by", "", "recorded in the audit log as the author; default: the user of this process")
	out := outputFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		p.route = args[0]
		if err := p.check(c); err != nil {
			return err
		}
		return a.operate(c.Context(), func(_ *config.Config, op *operate.Operator) error {
			resume := func() (bool, error) { return op.Resume(c.Context(), p.route, p.address, p.target().By) }
			if p.group != "" {
				resume = func() (bool, error) { return op.ResumeGroup(c.Context(), p.route, p.group, p.target().By) }
			}
			changed, err := resume()
			if err != nil {
				return unknownRoute(err)
			}
			if out.json() {
				return a.printJSON(pauseResult{Route: p.route, Address: p.address, Group: p.group, Changed: changed})
			}
			what := "route " + p.route
			if p.address != "" {
				what = "address " + strconv.Quote(p.address) + " of route " + p.route
			} else if p.group != "" {
				what = "group " + strconv.Quote(p.group) + " of route " + p.route
			}
			if !changed {
				fmt.Fprintln(a.out, what+" was not paused")
				return a.tellPausedAddresses(c.Context(), op, p.route)
			}
			fmt.Fprintln(a.out, what+" resumed")
			return nil
		})
	}
	return c
}

// tellPausedAddresses says how to resume what the user probably meant.
func (a *app) tellPausedAddresses(ctx context.Context, op *operate.Operator, route string) error {
	pauses, err := op.Pauses(ctx)
	if err != nil {
		return err
	}
	for _, p := range pauses {
		if p.Route == route && p.Group != "" {
			fmt.Fprintf(a.out, "  one of its groups is paused: outrider resume %s --group %s\n", route, strconv.Quote(p.Group))
		}
		if p.Route == route && p.Address != "" {
			fmt.Fprintf(a.out, "  one of its addresses is paused: outrider resume %s --address %s\n", route, strconv.Quote(operate.ShownAddress(p.Address)))
		}
	}
	return nil
}

// unknownRoute makes a route that does not exist the caller's mistake.
func unknownRoute(err error) error {
	if _, ok := errors.AsType[*operate.UnknownRoute](err); ok {
		return wrongError{err}
	}
	return err
}
