package main

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/outriderhq/outrider/admin/operate"
)

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
	return a.stateCommand(c, func(c *stateCall) (any, error) {
		open, err := c.op.Transactions(c.ctx, source)
		if err == nil && !c.machine {
			err = c.printTransactions(open)
		}
		if err != nil {
			return nil, err
		}
		return transactionsAnswer{open}, nil
	})
}

func (a *app) transactionEndCommand() *cobra.Command {
	var source string
	c := &cobra.Command{
		Use:   "end ID",
		Short: "Roll back a transaction by ending its session",
		Long: `Ends the session of a transaction that "outrider transactions" lists, so that everything
it has written is rolled back. Only that very transaction is ended: if it has ended, or
its session has begun another one, nothing is changed. Outrider's own sessions are never
ended. The role needs pg_signal_backend to end sessions of other roles.`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: cobra.NoFileCompletions,
	}
	c.Flags().StringVar(&source, "source", "", "look for it only in the database of this source")
	return a.actionCommand(c, true, func(c *stateCall) (any, error) { return endTransaction(c, source) })
}

func endTransaction(c *stateCall, source string) (any, error) {
	id := c.args[0]
	open, err := c.op.Transactions(c.ctx, source)
	i := slices.IndexFunc(open, func(t operate.Transaction) bool { return t.ID == id })
	var ended *operate.Transaction
	if i >= 0 {
		if err = nil; !c.machine {
			err = c.printTransactions(open[i : i+1])
		}
		if err == nil {
			err = c.agree("roll back transaction " + id)
		}
		if err == nil {
			ended, err = c.op.EndTransaction(c.ctx, source, id, c.by)
		}
	}
	switch {
	case err != nil:
		return nil, err
	case ended == nil:
		c.say("nothing was changed: it has ended already")
	default:
		c.say("ended: process " + strconv.Itoa(ended.Process) + "; its transaction is rolled back")
	}
	return endAnswer{id, ended != nil}, nil
}
