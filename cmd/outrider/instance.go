package main

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/config"
)

func (a *app) instanceCommand() *cobra.Command {
	return group(&cobra.Command{Use: "instance", Short: "Remove instances that take no lanes"}, a.instanceRemoveCommand())
}

func (a *app) instanceRemoveCommand() *cobra.Command {
	var yes bool
	var by string
	c := &cobra.Command{
		Use:   "remove ID",
		Short: "Take an instance's lanes away and delete its registration",
		Long: `Removes an instance that "outrider status --instances" shows as alive though it takes no
lanes or does not deliver: its lanes have no owner then, its registration is deleted,
and the database session that shows that it lives is ended. Others take its lanes.
Nothing is lost; messages that it has in flight may arrive twice. An instance that runs
joins again within seconds and gets its share: if it takes nothing, stop or restart it.`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := c.Flags()
	flags.BoolVarP(&yes, "yes", "y", false, "do not ask for confirmation")
	flags.StringVar(&by, "by", "", "recorded in the audit log as the author; default: the user of this process")
	out := outputFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		return a.operate(c.Context(), func(_ *config.Config, op *operate.Operator) error {
			if err := a.agree(yes, "remove instance "+args[0]+"? [y/N] "); err != nil {
				return err
			}
			removed, err := op.RemoveInstance(c.Context(), args[0], cmp.Or(by, currentUser()))
			switch {
			case err != nil:
				return err
			case out.json():
				return a.printJSON(map[string]any{"instance": args[0], "removed": removed})
			case !removed:
				fmt.Fprintln(a.out, "nothing was changed: there is no such instance")
			default:
				fmt.Fprintln(a.out, "removed; others take its lanes")
			}
			return nil
		})
	}
	return c
}
