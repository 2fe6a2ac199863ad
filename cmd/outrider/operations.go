package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/operate"
)

func (a *app) operationsCommand() *cobra.Command {
	c := group(&cobra.Command{
		Use:   "operations",
		Short: "List, show, stop and resume operations: changes of many messages",
		Long: `Redriving, skipping or purging by a filter is an operation: a record in the state store
with an id, a count, a rate and its progress. The command that creates it runs it. With
--detach, or if the command is killed, a running relay does. An operation survives
restarts, changes each message once, and is kept for 30 days after its end.`,
	}, a.operationListCommand(), a.operationShowCommand(), a.operationStopCommand(), a.operationResumeCommand())
	return a.stateCommand(c, func(c *stateCall) (any, error) { // without a command it lists
		return nil, c.listOperations(c.ctx, c.op, adapters.OperationFilter{}, c.machine)
	})
}

func (a *app) listOperations(ctx context.Context, op *operate.Operator, f adapters.OperationFilter, machine bool) error {
	found, err := op.Operations(ctx, f)
	if err != nil {
		return err
	}
	views := []operate.OperationView{}
	var cells [][]string
	for i := range found {
		o := &found[i]
		views = append(views, operate.ViewOperation(o))
		cells = append(cells, []string{o.ID, string(o.Kind), string(o.State), strconv.Itoa(o.Done), strconv.Itoa(o.Failed), strconv.Itoa(o.Total), left(o), o.By, ago(o.CreatedAt)})
	}
	if machine {
		return a.printJSON(operationsAnswer{views})
	}
	if len(cells) == 0 {
		fmt.Fprintln(a.out, "there are no operations")
		return nil
	}
	return a.printTable([]string{"ID", "KIND", "STATE", "DONE", "FAILED", "TOTAL", "LEFT", "BY", "ORDERED"}, cells)
}

// left is how long an operation will still take; empty: not known.
func left(o *adapters.Operation) string {
	pace := o.PerSecond()
	if pace <= 0 {
		return ""
	}
	return rough(time.Duration(float64(o.Remaining()) / pace * float64(time.Second)))
}

func (a *app) showOperation(o *adapters.Operation, machine bool) error {
	if machine {
		return a.printJSON(operate.ViewOperation(o))
	}
	cells := [][]string{{"id", o.ID}, {"kind", string(o.Kind)}, {"about", about(o)}, {"state", string(o.State)},
		{"progress", fmt.Sprintf("%d of %s", o.Done, counted(o.Total, unitOf(o)))}}
	add := func(name, value string) {
		if value != "" {
			cells = append(cells, []string{name, value})
		}
	}
	if o.Failed > 0 {
		add("failed", strconv.Itoa(o.Failed))
	}
	if pace := o.PerSecond(); pace > 0 {
		add("pace", fmt.Sprintf("%.0f a second, %s left", pace, left(o)))
	}
	if o.Rate > 0 {
		add("rate", fmt.Sprintf("%g a second at most", o.Rate))
	}
	at := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.UTC().Format(time.RFC3339) + ", " + ago(t)
	}
	add("error", o.Error)
	add("by", o.By)
	add("worker", o.Worker)
	add("ordered", at(o.CreatedAt))
	add("started", at(o.StartedAt))
	add("last step", at(o.UpdatedAt))
	add("ended", at(o.EndedAt))
	return a.printPairs(cells)
}

// unitOf is the unit of an operation: messages or routes.
func unitOf(o *adapters.Operation) string {
	if o.Kind == adapters.OperationSeek {
		return "route"
	}
	return "message"
}

// about is the subject of an operation, in the words of the flags.
func about(o *adapters.Operation) string {
	if o.Kind == adapters.OperationSeek {
		return strings.Join(o.Routes, " ") + " to " + o.To
	}
	f := o.Filter
	if o.All {
		return "all"
	}
	var parts []string
	for _, p := range [][2]string{{"route", f.Route}, {"group", f.Group}, {"id", f.ID}, {"type", f.Type}, {"status", string(f.Status)}, {"error", f.Error}} {
		if p[1] != "" {
			parts = append(parts, p[0]+" "+p[1])
		}
	}
	if !f.Before.IsZero() {
		parts = append(parts, "parked before "+f.Before.UTC().Format(time.RFC3339))
	}
	return strings.Join(parts, ", ")
}

func detachFlag(c *cobra.Command, detach *bool) {
	c.Flags().BoolVar(detach, "detach", false, "leave the work to a running relay and return at once")
}

// done is the verb of an operation, in the past.
func done(kind adapters.OperationKind) string {
	return map[adapters.OperationKind]string{adapters.OperationRedrive: "redriven", adapters.OperationSkip: "skipped",
		adapters.OperationPurge: "purged", adapters.OperationSeek: "moved"}[kind]
}

// followOperations works operations to their end, or leaves them to a relay. A signal stops them.
func (a *app) followOperations(ctx context.Context, op *operate.Operator, kind adapters.OperationKind, all []adapters.Operation, detach, machine bool) error {
	if detach {
		return a.leaveOperations(ctx, op, kind, all, machine)
	}
	host, _ := os.Hostname() // the process id alone does
	worker := fmt.Sprintf("command %d on %s, begun %s", os.Getpid(), host, time.Now().UTC().Format(time.RFC3339Nano))
	views := []operate.OperationView{}
	changed := 0
	for i := range all {
		o, err := a.followOperation(ctx, op, &all[i], worker)
		if err != nil {
			return err
		}
		changed += o.Done
		views = append(views, operate.ViewOperation(&o))
		if !machine {
			fmt.Fprintf(a.out, "%s %s (operation %s)\n", counted(o.Done, unitOf(&o)), done(o.Kind), o.ID)
		}
		if o.State == adapters.OperationStopped {
			return fmt.Errorf("operation %s was stopped: %d of %s %s; resume it with: outrider operations resume %s", o.ID, o.Done, counted(o.Total, unitOf(&o)), done(o.Kind), o.ID)
		}
		if o.State == adapters.OperationFailed {
			return fmt.Errorf("operation %s failed after %s: %s; resume it with: outrider operations resume %s", o.ID, counted(o.Done, unitOf(&o)), o.Error, o.ID)
		}
	}
	if machine {
		return a.printJSON(changeAnswer{Action: string(kind), Changed: &changed, Operations: views})
	}
	return nil
}

// leaveOperations says how to follow what a relay works.
func (a *app) leaveOperations(ctx context.Context, op *operate.Operator, kind adapters.OperationKind, all []adapters.Operation, machine bool) error {
	if machine {
		views := []operate.OperationView{}
		for i := range all {
			views = append(views, operate.ViewOperation(&all[i]))
		}
		return a.printJSON(changeAnswer{Action: string(kind), Operations: views})
	}
	for i := range all {
		fmt.Fprintf(a.out, "operation %s: %s to go; follow it with: outrider operations show %s\n", all[i].ID, counted(all[i].Remaining(), unitOf(&all[i])), all[i].ID)
	}
	instances, err := op.Instances(ctx)
	for _, i := range instances {
		if i.Alive {
			return err
		}
	}
	fmt.Fprintln(a.err, "warning: no relay is running; the operation starts when one does")
	return err
}

// followOperation works one operation, and stops it when a signal comes.
func (a *app) followOperation(ctx context.Context, op *operate.Operator, o *adapters.Operation, worker string) (now adapters.Operation, err error) {
	long := terminal(a.err) && (o.Rate > 0 || o.Total > adapters.DefaultParkedStep)
	if long {
		fmt.Fprintf(a.err, "operation %s; Ctrl-C stops it\n", o.ID)
	}
	var last atomic.Pointer[adapters.Operation] // also read when a second signal leaves the work behind
	last.Store(o)
	err = untilSignal(ctx, func(text string) { fmt.Fprintln(a.err, text) }, func(ctx context.Context) error {
		end, err := op.WorkOperation(ctx, o.ID, worker, func(now adapters.Operation) {
			last.Store(&now)
			if long {
				fmt.Fprintf(a.err, "\r%d of %s %s, %.0f a second, %s left   ", now.Done, counted(now.Total, unitOf(&now)), done(now.Kind), now.PerSecond(), cmp.Or(left(&now), "?"))
			}
		})
		if errors.Is(err, context.Canceled) {
			whole := context.WithoutCancel(ctx)
			if _, stopErr := op.StopOperation(whole, o.ID, currentUser()); stopErr != nil {
				return stopErr
			}
			end, err = op.Operation(whole, o.ID)
		}
		if err == nil {
			last.Store(&end)
		}
		return err
	})
	if long {
		fmt.Fprintln(a.err)
	}
	return *last.Load(), err
}

func (a *app) operationListCommand() *cobra.Command {
	var f adapters.OperationFilter
	c := &cobra.Command{Use: "list", Short: "List operations, the newest first", Args: noArgs}
	c.Flags().BoolVar(&f.Active, "active", false, "only those that are planned or running")
	c.Flags().IntVarP(&f.Limit, "limit", "n", adapters.DefaultParkedList, "maximum number of operations to list")
	a.stateCommand(c, func(c *stateCall) (any, error) { return nil, c.listOperations(c.ctx, c.op, f, c.machine) })
	return checked(c, func() error {
		if f.Limit < 1 {
			return wrong("--limit must be at least 1")
		}
		return nil
	})
}

func (a *app) operationShowCommand() *cobra.Command {
	c := &cobra.Command{Use: "show ID", Short: "Show an operation and its progress", Args: cobra.ExactArgs(1)}
	return a.stateCommand(c, func(c *stateCall) (any, error) {
		o, err := c.op.Operation(c.ctx, c.args[0])
		if err != nil {
			return nil, err
		}
		return nil, c.showOperation(&o, c.machine)
	})
}

func (a *app) operationStopCommand() *cobra.Command {
	return a.actionCommand(&cobra.Command{
		Use:   "stop ID",
		Short: "Stop an operation after its current step",
		Long:  "Stops an operation, in whichever process runs it. Changes already made stay; \"outrider operations resume\" resumes it.",
		Args:  cobra.ExactArgs(1),
	}, false, func(c *stateCall) (any, error) {
		changed, err := c.op.StopOperation(c.ctx, c.args[0], c.by)
		if err != nil {
			return nil, err
		}
		o, err := c.op.Operation(c.ctx, c.args[0])
		switch {
		case err != nil:
			return nil, err
		case changed:
			c.say(fmt.Sprintf("operation %s stopped: %d of %s %s", o.ID, o.Done, counted(o.Total, unitOf(&o)), done(o.Kind)))
		default:
			c.say(fmt.Sprintf("operation %s is not running: it is %s", o.ID, o.State))
		}
		return operate.ViewOperation(&o), nil
	})
}

func (a *app) operationResumeCommand() *cobra.Command {
	var detach bool
	c := &cobra.Command{
		Use:   "resume ID",
		Short: "Resume a stopped or failed operation",
		Args:  cobra.ExactArgs(1),
	}
	detachFlag(c, &detach)
	return a.actionCommand(c, false, func(c *stateCall) (any, error) {
		changed, err := c.op.ResumeOperation(c.ctx, c.args[0], c.by)
		if err != nil {
			return nil, err
		}
		o, err := c.op.Operation(c.ctx, c.args[0])
		switch {
		case err != nil:
			return nil, err
		case !changed && !o.State.Active():
			return nil, fmt.Errorf("operation %s cannot be resumed: it is %s", o.ID, o.State)
		}
		return nil, c.followOperations(c.ctx, c.op, o.Kind, []adapters.Operation{o}, detach, c.machine)
	})
}
