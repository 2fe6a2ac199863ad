package main

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/config"
)

func (a *app) routeCommand() *cobra.Command {
	return group(&cobra.Command{Use: "route", Short: "Manage the state that is stored for routes"}, a.forgetCommand())
}

func (a *app) forgetCommand() *cobra.Command {
	var force, yes bool
	var by string
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
	flags := c.Flags()
	flags.BoolVar(&force, "force", false, "also if the route is configured or an instance runs it")
	flags.BoolVarP(&yes, "yes", "y", false, "do not ask for confirmation")
	flags.StringVar(&by, "by", "", "recorded in the audit log as the author; default: the user of this process")
	out := outputFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		return a.operate(c.Context(), func(_ *config.Config, op *operate.Operator) error {
			if err := op.CheckForget(c.Context(), args[0], force); err != nil {
				return unknownRoute(err)
			}
			kept, err := kept(c, op, args[0])
			if err != nil {
				return err
			}
			if !out.json() {
				fmt.Fprintln(a.out, kept)
			}
			if err := a.agree(yes, "forget route "+args[0]+"? [y/N] "); err != nil {
				return err
			}
			gone, err := op.Forget(c.Context(), args[0], force, cmp.Or(by, currentUser()))
			if err != nil {
				return unknownRoute(err)
			}
			if out.json() {
				return a.printJSON(map[string]any{"route": args[0], "lanes": gone.Lanes, "parked": gone.Parked, "pauses": gone.Pauses})
			}
			fmt.Fprintln(a.out, "forgotten")
			return nil
		})
	}
	return c
}

// kept says what there is of a route.
func kept(c *cobra.Command, op *operate.Operator, route string) (string, error) {
	k, err := op.Kept(c.Context(), route)
	return fmt.Sprintf("route %s: %s, position %d, %s (%d dead), %s", route, counted(k.Lanes, "lane"), k.Position,
		counted(k.Parked, "parked message"), k.Dead, counted(k.Pauses, "pause")), err
}
