package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func (a *app) routeCommand() *cobra.Command {
	return group(&cobra.Command{Use: "route", Short: "Manage the state that is stored for routes"}, a.forgetCommand())
}

func (a *app) forgetCommand() *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use:   "forget ROUTE",
		Short: "Delete the cursors, parked messages and pauses of a route that is gone",
		Long: `Deletes everything that the state store keeps for a route, permanently: its cursors, its
parked messages (also dead ones) and its pauses. Retention may then remove rows that
only this route needed. The command refuses a route that is configured or that an
instance runs. With --force it deletes its state all the same; the route then starts
again as its "start" says.`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeRoutes,
	}
	c.Flags().BoolVar(&force, "force", false, "also if the route is configured or an instance runs it")
	return a.actionCommand(c, true, func(c *stateCall) (any, error) {
		route := c.args[0]
		if err := c.op.CheckForget(c.ctx, route, force); err != nil {
			return nil, err
		}
		k, err := c.op.Kept(c.ctx, route)
		if err != nil {
			return nil, err
		}
		c.say(fmt.Sprintf("route %s: %s, position %d, %s (%d dead), %s", route, counted(k.Lanes, "lane"), k.Position,
			counted(k.Parked, "parked message"), k.Dead, counted(k.Pauses, "pause")))
		if err := c.agree("forget route " + route); err != nil {
			return nil, err
		}
		gone, err := c.op.Forget(c.ctx, route, force, c.by)
		if err != nil {
			return nil, err
		}
		c.say("forgotten")
		return forgetAnswer{route, gone.Lanes, gone.Parked, gone.Pauses}, nil
	})
}
