package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/user"

	"github.com/spf13/cobra"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/config"
)

// stateCall is one call of a command that works on the state, or changes something.
type stateCall struct {
	*app
	ctx  context.Context
	cfg  *config.Config
	op   *operate.Operator
	args []string

	by      string // recorded in the audit log
	yes     bool
	machine bool // the answer is JSON
}

// agree asks for confirmation unless --yes was given. Without a terminal, the
// answer has to be given.
func (c *stateCall) agree(question string) error {
	switch {
	case c.yes:
		return nil
	case !terminal(c.in):
		return wrong("stdin is not a terminal: pass --yes, or preview with --dry-run")
	case !c.confirm(question + "? [y/N] "):
		return errors.New("nothing was changed")
	}
	return nil
}

// say writes a line for people.
func (c *stateCall) say(text string) {
	if !c.machine {
		fmt.Fprintln(c.out, text)
	}
}

// stateCommand is a command that works on the state. do returns the answer for machines and says the one for people; it returns nil if it
// has written both itself.
func (a *app) stateCommand(c *cobra.Command, do func(*stateCall) (answer any, err error)) *cobra.Command {
	out := outputFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		flags := c.Flags()
		by, _ := flags.GetString("by") // "" for a command that has no such flag
		yes, _ := flags.GetBool("yes")
		return a.operate(c.Context(), func(cfg *config.Config, op *operate.Operator) error {
			answer, err := do(&stateCall{app: a, ctx: c.Context(), cfg: cfg, op: op, args: args, by: cmp.Or(by, currentUser()), yes: yes, machine: out.json()})
			if answer == nil || !out.json() {
				return asMistake(err)
			}
			return errors.Join(a.printJSON(answer), asMistake(err))
		})
	}
	return c
}

// actionCommand is a command that changes something and has an author. If asks, it needs a confirmation.
func (a *app) actionCommand(c *cobra.Command, asks bool, do func(*stateCall) (answer any, err error)) *cobra.Command {
	if asks {
		c.Flags().BoolP("yes", "y", false, "do not ask for confirmation")
	}
	c.Flags().String("by", "", "recorded in the audit log as the author; default: the user of this process")
	return a.stateCommand(c, do)
}

// asMistake makes a route or an operation that does not exist the caller's mistake.
func asMistake(err error) error {
	if _, ok := errors.AsType[*operate.UnknownRoute](err); ok || errors.Is(err, adapters.ErrNoOperation) {
		return wrongError{err}
	}
	return err
}

func currentUser() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "unknown"
}

// checked adds a check of the flags, before the configuration is read.
func checked(c *cobra.Command, check func() error) *cobra.Command {
	run := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := check(); err != nil {
			return err
		}
		return run(c, args)
	}
	return c
}
