package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/operate"
)

// pauseResult is the result of pause and resume, for machines.
type pauseResult struct {
	Route   string `json:"route"`
	Address string `json:"address,omitempty"`
	Group   string `json:"group,omitempty"`
	Changed bool   `json:"changed"` // false: it was so already
	AtRest  *bool  `json:"at_rest,omitempty"`
}

// name is the route, address or group that was paused or resumed, in words.
func (r pauseResult) name(quote func(string) string) string {
	name := "route " + r.Route
	switch {
	case r.Address != "":
		return "address " + quote(r.Address) + " of " + name
	case r.Group != "":
		return "group " + strconv.Quote(r.Group) + " of " + name
	}
	return name
}

// pauseFlags adds the flags that name a part of a route, and refuses what they cannot mean: an address and a group at once, or an empty
// one, which would be all of the route.
func (a *app) pauseFlags(c *cobra.Command, address, group string, do func(*stateCall, adapters.Pause) (any, error)) *cobra.Command {
	var p adapters.Pause
	flags := c.Flags()
	flags.StringVar(&p.Address, "address", "", address)
	flags.StringVar(&p.Group, "group", "", group)
	if flags.Lookup("wait") != nil {
		flags.StringVar(&p.Reason, "reason", "", "why; shown by status")
	}
	c.Args, c.ValidArgsFunction = cobra.ExactArgs(1), a.completeRoutes
	a.actionCommand(c, false, func(c *stateCall) (any, error) {
		p.Route, p.By = c.args[0], c.by
		return do(c, p)
	})
	return checked(c, func() error {
		for name, value := range map[string]string{"address": p.Address, "group": p.Group} {
			if flags.Changed(name) && value == "" {
				return wrong("--%s is empty: give it a value, or leave it out for the whole route", name)
			}
		}
		if p.Address != "" && p.Group != "" {
			return wrong("--address and --group exclude each other")
		}
		return nil
	})
}

func (a *app) pauseCommand() *cobra.Command {
	var wait time.Duration
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
	}
	c.Flags().DurationVar(&wait, "wait", time.Minute, "how long to wait until nothing is in flight; 0: do not wait")
	return a.pauseFlags(c, "only this address of the route", "only this group of the route, as \"outrider parked list\" shows it",
		func(c *stateCall, p adapters.Pause) (any, error) { return pause(c, p, wait) })
}

func pause(c *stateCall, p adapters.Pause, wait time.Duration) (any, error) {
	changed, err := c.op.Pause(c.ctx, p)
	if err != nil {
		return nil, err
	}
	r := pauseResult{Route: p.Route, Address: p.Address, Group: p.Group, Changed: changed}
	text := r.name(func(address string) string { return address }) + " is paused"
	if !changed {
		text = strings.TrimSuffix(text, "is paused") + "was paused already"
	}
	if !p.OfRoute() {
		c.say(text)
		return r, nil
	}
	rests, err := untilAtRest(c, p.Route, wait)
	if err != nil {
		return nil, err
	}
	r.AtRest = &rests
	if rests {
		c.say(text + "; nothing in flight")
		return r, nil
	}
	c.say(text + "; messages in flight are being finished")
	if wait > 0 {
		err = fmt.Errorf("messages are still in flight after %v; the route stays paused: see `outrider status --lanes`", wait)
	}
	return r, err
}

// untilAtRest waits until no instance runs the route.
func untilAtRest(c *stateCall, route string, wait time.Duration) (bool, error) {
	waiting, cancel := context.WithTimeout(c.ctx, wait)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		rests, err := c.op.AtRest(c.ctx, route)
		if rests || err != nil || wait <= 0 {
			return rests, err
		}
		select {
		case <-tick.C:
		case <-waiting.Done():
			return false, c.ctx.Err()
		}
	}
}

func (a *app) resumeCommand() *cobra.Command {
	return a.pauseFlags(&cobra.Command{
		Use:   "resume ROUTE",
		Short: "Resume a paused route, or an address or a group of it",
		Long: `Ends a pause. A running instance resumes a route within a second, and an address or a
group within two. An address that answered 410 (Gone) was paused by
the relay; this command resumes it too.`,
	}, "only this address of the route, as status shows it", "only this group of the route", resume)
}

func resume(c *stateCall, p adapters.Pause) (any, error) {
	changed, err := c.op.Resume(c.ctx, p)
	if err != nil {
		return nil, err
	}
	r := pauseResult{Route: p.Route, Address: p.Address, Group: p.Group, Changed: changed}
	name := r.name(strconv.Quote)
	if changed || c.machine {
		c.say(name + " resumed")
		return r, nil
	}
	c.say(name + " was not paused")
	pauses, err := c.op.Pauses(c.ctx)
	for _, other := range pauses { // which the user probably meant
		switch {
		case other.Route != p.Route:
		case other.Group != "":
			fmt.Fprintf(c.out, "  one of its groups is paused: outrider resume %s --group %s\n", p.Route, strconv.Quote(other.Group))
		case other.Address != "":
			fmt.Fprintf(c.out, "  one of its addresses is paused: outrider resume %s --address %s\n", p.Route, strconv.Quote(operate.ShownAddress(other.Address)))
		}
	}
	return r, err
}
