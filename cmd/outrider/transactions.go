package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/config"
)

func (a *app) transactionsCommand() *cobra.Command {
	var source string
	c := group(&cobra.Command{
		Use:   "transactions",
		Short: "List transactions that rows wait for, and end one",
		Long: `Lists the transactions of other programs that have been open for 5 minutes in the
databases of PostgreSQL sources. Rows that such a transaction has written are not
delivered before it ends, and dead row versions cannot be removed.`,
	}, a.transactionEndCommand())
	c.Flags().StringVar(&source, "source", "", "only those in the database of this source")
	out := outputFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		return a.operate(c.Context(), func(_ *config.Config, op *operate.Operator) error {
			open, err := op.Transactions(c.Context(), source)
			if err != nil {
				return err
			}
			if out.json() {
				return a.printJSON(map[string]any{"transactions": open})
			}
			return a.printTransactions(open)
		})
	}
	return c
}

func (a *app) printTransactions(open []operate.Transaction) error {
	if len(open) == 0 {
		fmt.Fprintln(a.out, "no transaction has been open for long")
		return nil
	}
	var cells [][]string
	for _, t := range open {
		cells = append(cells, []string{t.ID, t.Source, plain(t.Application), plain(t.User), (time.Duration(t.OpenSeconds) * time.Second).String(), t.State, plain(t.Statement)})
	}
	return a.printTable([]string{"ID", "SOURCE", "APPLICATION", "USER", "OPEN", "STATE", "STATEMENT"}, cells)
}

func (a *app) transactionEndCommand() *cobra.Command {
	var yes bool
	var source, by string
	c := &cobra.Command{
		Use:   "end ID",
		Short: "Roll back a transaction by ending its session",
		Long: `Ends the session of a transaction that "outrider transactions" lists, so that everything
it has written is rolled back. Only that very transaction is ended: if it has ended, or
its session has begun another one, nothing is changed. Outrider's own sessions are never
ended. The role needs pg_signal_backend to end sessions of other roles.`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := c.Flags()
	flags.StringVar(&source, "source", "", "look for it only in the database of this source")
	flags.BoolVarP(&yes, "yes", "y", false, "do not ask for confirmation")
	flags.StringVar(&by, "by", "", "recorded in the audit log as the author; default: the user of this process")
	out := outputFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		return a.operate(c.Context(), func(_ *config.Config, op *operate.Operator) error {
			return a.endTransaction(c.Context(), op, source, args[0], cmp.Or(by, currentUser()), yes, out.json())
		})
	}
	return c
}

func (a *app) endTransaction(ctx context.Context, op *operate.Operator, source, id, by string, yes, machine bool) error {
	open, err := op.Transactions(ctx, source)
	i := slices.IndexFunc(open, func(t operate.Transaction) bool { return t.ID == id })
	var ended *operate.Transaction
	if i >= 0 {
		if !machine {
			err = a.printTransactions(open[i : i+1])
		}
		if err == nil {
			err = a.agree(yes, "roll back transaction "+id+"? [y/N] ")
		}
		if err == nil {
			ended, err = op.EndTransaction(ctx, source, id, by)
		}
	}
	switch {
	case err != nil:
		return err
	case machine:
		return a.printJSON(map[string]any{"id": id, "ended": ended != nil})
	case ended == nil:
		fmt.Fprintln(a.out, "nothing was changed: it has ended already")
	default:
		fmt.Fprintln(a.out, "ended: process "+strconv.Itoa(ended.Process)+"; its transaction is rolled back")
	}
	return nil
}
