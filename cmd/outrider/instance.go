package main

import "github.com/spf13/cobra"

func (a *app) instanceCommand() *cobra.Command {
	return group(&cobra.Command{Use: "instance", Short: "Remove instances that take no lanes"}, a.instanceRemoveCommand())
}

func (a *app) instanceRemoveCommand() *cobra.Command {
	return a.actionCommand(&cobra.Command{
		Use:   "remove ID",
		Short: "Take an instance's lanes away and delete its registration",
		Long: `Removes an instance that "outrider status --instances" shows as alive though it takes no
lanes or does not deliver: its lanes have no owner then, its registration is deleted,
and the database session that shows that it lives is ended. Others take its lanes.
Nothing is lost; messages that it has in flight may arrive twice. An instance that runs
joins again within seconds and gets its share: if it takes nothing, stop or restart it.`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: cobra.NoFileCompletions,
	}, true, func(c *stateCall) (any, error) {
		if err := c.agree("remove instance " + c.args[0]); err != nil {
			return nil, err
		}
		removed, err := c.op.RemoveInstance(c.ctx, c.args[0], c.by)
		switch {
		case err != nil:
			return nil, err
		case removed:
			c.say("removed; others take its lanes")
		default:
			c.say("nothing was changed: there is no such instance")
		}
		return instanceAnswer{c.args[0], removed}, nil
	})
}
