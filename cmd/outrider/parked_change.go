package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/config"
)

// change is a command that changes parked messages.
type change struct {
	action adapters.ParkedAction
	did    string // for reports: "redriven"

	filter parkedFilter
	ids    []string
	all    bool
	dryRun bool
	yes    bool
	by     string
	detach bool
	rate   string
	output *output
}

func (a *app) redriveCommand() *cobra.Command {
	return a.changeCommand(&cobra.Command{
		Use:   "redrive [ID...]",
		Short: "Retry dead, held or retrying messages now; attempts start again at 0",
		Long: `A held or retrying message keeps its place in its group. A dead message arrives after
the messages of its group that were delivered meanwhile: redriving it is the only
exception to the order of a group. Waiting messages follow the first message of their
group and cannot be redriven.`,
	}, &change{action: adapters.ParkedRedrive, did: "redriven"}, "retrying", "held", "dead")
}

func (a *app) skipCommand() *cobra.Command {
	return a.changeCommand(&cobra.Command{
		Use:   "skip [ID...]",
		Short: "Delete messages that block their groups, without delivering them",
		Long: `Deletes held and retrying messages; their groups then resume. Waiting messages have not
failed: they are deleted only if you name them by id or with --status waiting. Dead
messages block nothing: delete them with purge.`,
	}, &change{action: adapters.ParkedSkip, did: "skipped"}, "retrying", "held", "waiting")
}

func (a *app) purgeCommand() *cobra.Command {
	return a.changeCommand(&cobra.Command{
		Use:   "purge [ID...]",
		Short: "Delete dead messages",
		Long: `Deletes dead messages only. Dead messages block nothing; they are kept until you
delete or redrive them, or for the time set with parked: {keep: ...}.`,
	}, &change{action: adapters.ParkedPurge, did: "purged"})
}

// changeCommand adds what the commands have in common.
func (a *app) changeCommand(c *cobra.Command, ch *change, statuses ...string) *cobra.Command {
	c.Long = c.Short + ".\n\n" + c.Long + `

Select messages by id, by filter, or with --all. Changing more than one message needs
confirmation, on the terminal or with --yes. What a filter or --all selects is an
operation: it has an id, is changed in steps, each a transaction with its progress, and
continues after an interruption; see "outrider operations". A running relay notices the
change within a quarter of its lease.`
	ch.filter.flags(a, c)
	if len(statuses) > 0 {
		ch.filter.statusFlag(c, statuses...)
	}
	flags := c.Flags()
	flags.IntVarP(&ch.filter.Limit, "limit", "n", 0, "maximum number of messages to change; default: all that match")
	flags.BoolVar(&ch.all, "all", false, "all messages that the command can change; required without an id or a filter")
	flags.BoolVar(&ch.dryRun, "dry-run", false, "print the numbers by route and status, change nothing")
	flags.BoolVarP(&ch.yes, "yes", "y", false, "do not ask for confirmation")
	flags.StringVar(&ch.rate, "rate", "", "maximum `rate`, such as 100/s; default: unlimited")
	flags.StringVar(&ch.by, "by", "", "recorded in the audit log as the author; default: the user of this process")
	detachFlag(c, &ch.detach)
	ch.output = outputFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		ch.ids = args
		pace, err := ch.check()
		if err != nil {
			return err
		}
		return a.operate(c.Context(), func(cfg *config.Config, op *operate.Operator) error {
			if err := ch.filter.check(c.Context(), cfg, op); err != nil {
				return err
			}
			return a.change(c.Context(), op, ch, pace)
		})
	}
	return c
}

// check refuses what cannot be meant, and returns the pace.
func (ch *change) check() (pace operate.RateLimit, err error) {
	filtered := !ch.filter.IsZero() || ch.filter.olderThan != "" || len(ch.ids) > 0
	switch {
	case filtered && ch.all:
		return pace, wrong("--all takes neither ids nor a filter")
	case !filtered && !ch.all:
		return pace, wrong("name the messages: ids, a filter such as --route or --error, or --all")
	case slices.Contains(ch.ids, ""):
		return pace, wrong("an id is empty")
	case ch.detach && len(ch.ids) > 0:
		return pace, wrong("--detach goes with a filter or --all: messages that are named are changed at once")
	case ch.filter.Limit < 0:
		return pace, wrong("--limit must not be negative")
	case ch.action == adapters.ParkedRedrive && ch.filter.Status == adapters.ParkedWaiting:
		return pace, wrong("waiting messages cannot be redriven: they follow the head of their group, or their address")
	case ch.action == adapters.ParkedSkip && ch.filter.Status == adapters.ParkedDead:
		return pace, wrong("dead messages block nothing: delete them with `outrider parked purge`")
	case ch.rate != "":
		parsed, err := config.ParseRate(ch.rate)
		if err != nil {
			return pace, wrong("--rate %q: %w", ch.rate, err)
		}
		pace.Rate = parsed.PerSecond()
	}
	return pace, ch.filter.read()
}

// commands are those of the call: one for each id, or one.
func (ch *change) commands() []adapters.ParkedCommand {
	c := adapters.ParkedCommand{Action: ch.action, Filter: ch.filter.ParkedFilter, All: ch.all, By: cmp.Or(ch.by, currentUser())}
	if len(ch.ids) == 0 {
		return []adapters.ParkedCommand{c}
	}
	var out []adapters.ParkedCommand
	for _, id := range ch.ids {
		c.Filter.ID = id
		out = append(out, c)
	}
	return out
}

// matching is how many messages of a route and status a command is about, for
// machines.
type matching struct {
	Route    string `json:"route"`
	Status   string `json:"status"`
	Messages int    `json:"messages"`
}

// count returns what the commands are about, how many messages they will change,
// and the ids of the call that none of those has.
func (ch *change) count(ctx context.Context, op *operate.Operator) (rows []matching, total int, unknown []string, err error) {
	index := map[matching]int{}
	for _, c := range ch.commands() {
		counts, err := op.CountParked(ctx, c)
		if err != nil {
			return nil, 0, nil, err
		}
		if len(counts) == 0 && c.Filter.ID != "" {
			unknown = append(unknown, c.Filter.ID)
		}
		for _, n := range counts {
			key := matching{Route: n.Route, Status: string(n.Status)}
			if _, known := index[key]; !known {
				index[key] = len(rows)
				rows = append(rows, key)
			}
			rows[index[key]].Messages += n.Count
			total += n.Count
		}
	}
	if ch.filter.Limit > 0 {
		total = min(total, ch.filter.Limit*len(ch.commands()))
	}
	return rows, total, unknown, nil
}

func (a *app) change(ctx context.Context, op *operate.Operator, ch *change, pace operate.RateLimit) error {
	rows, total, unknown, err := ch.count(ctx, op)
	if err != nil {
		return err
	}
	for _, id := range unknown {
		if total > 0 {
			fmt.Fprintf(a.err, "warning: no parked message with the id %s can be %s\n", plain(id), ch.did)
		}
	}
	if ch.dryRun {
		return a.printCount(ch, rows, total)
	}
	switch {
	case total == 0 && len(ch.ids) > 0:
		return fmt.Errorf("no parked message with the id %s can be %s; `outrider parked show ID` shows a message's status",
			strings.Join(ch.ids, " or "), ch.did)
	case total <= 1 || ch.yes:
	case !terminal(a.in):
		return wrong("cannot ask whether to %s %s, because stdin is not a terminal: pass --yes, or preview with --dry-run", ch.action, counted(total, "message"))
	case !a.confirm(fmt.Sprintf("%s %s? [y/N] ", ch.action, counted(total, "message"))):
		return fmt.Errorf("nothing was %s", ch.did)
	}
	if len(ch.ids) > 0 || total == 0 {
		err = a.changeNamed(ctx, op, ch, pace, total)
	} else {
		err = a.orderChange(ctx, op, ch, pace)
	}
	if err == nil && !ch.output.json() && slices.ContainsFunc(rows, func(m matching) bool {
		return ch.action == adapters.ParkedRedrive && m.Status == string(adapters.ParkedDead)
	}) {
		fmt.Fprintln(a.err, "note: a redriven dead message arrives after the messages of its group that were delivered meanwhile")
	}
	return err
}

// orderChange makes an operation of what a filter selects.
func (a *app) orderChange(ctx context.Context, op *operate.Operator, ch *change, pace operate.RateLimit) error {
	kind := adapters.OperationKind(ch.action)
	plan, err := op.PlanOperation(ctx, operate.OperationOrder{Kind: kind, Filter: ch.filter.ParkedFilter, All: ch.all,
		Rate: pace.Rate, By: cmp.Or(ch.by, currentUser())})
	if err != nil {
		return err
	}
	all, err := op.StartOperation(ctx, plan)
	if err != nil {
		return err
	}
	return a.followOperations(ctx, op, kind, all, ch.detach, ch.output.json())
}

// changeNamed changes the messages whose ids were given.
func (a *app) changeNamed(ctx context.Context, op *operate.Operator, ch *change, pace operate.RateLimit, total int) error {
	done, err := a.carryOut(ctx, op, ch, pace, total)
	switch {
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("stopped: %d of %s %s; run the same command again for the rest", done, counted(total, "message"), ch.did)
	case err != nil:
		return fmt.Errorf("%s %s, then: %w", counted(done, "message"), ch.did, err)
	case ch.output.json():
		return a.printJSON(changeAnswer{Action: string(ch.action), Changed: &done})
	}
	fmt.Fprintf(a.out, "%s %s\n", counted(done, "message"), ch.did)
	return nil
}

// carryOut changes the messages until it is done or the process is stopped.
func (a *app) carryOut(ctx context.Context, op *operate.Operator, ch *change, pace operate.RateLimit, total int) (int, error) {
	var done atomic.Int64 // also read when a second signal leaves the work behind
	say := func(text string) { fmt.Fprintln(a.err, text) }
	err := untilSignal(ctx, say, func(ctx context.Context) error {
		for _, c := range ch.commands() {
			before := done.Load()
			pace.Progress = func(changed int) {
				done.Store(before + int64(changed))
				a.progress(ch, int(done.Load()), total)
			}
			if _, err := op.ChangeParked(ctx, c, pace); err != nil {
				return err
			}
		}
		return nil
	})
	return int(done.Load()), err
}

// progress shows how far a command is, on a terminal, for a command with several steps.
func (a *app) progress(ch *change, done, total int) {
	if !terminal(a.err) || total <= adapters.DefaultParkedStep && ch.rate == "" {
		return
	}
	fmt.Fprintf(a.err, "\r%d of %s %s", done, counted(total, "message"), ch.did)
	if done >= total {
		fmt.Fprintln(a.err)
	}
}

// printCount prints the result of --dry-run.
func (a *app) printCount(ch *change, rows []matching, total int) error {
	if ch.output.json() {
		return a.printJSON(changeAnswer{Action: string(ch.action), DryRun: true, WouldChange: &total, Matching: append([]matching{}, rows...)})
	}
	if len(rows) > 0 {
		var cells [][]string
		for _, m := range rows {
			cells = append(cells, []string{m.Route, m.Status, strconv.Itoa(m.Messages)})
		}
		if err := a.printTable([]string{"ROUTE", "STATUS", "MESSAGES"}, cells); err != nil {
			return err
		}
	}
	fmt.Fprintf(a.out, "%s would be %s\n", counted(total, "message"), ch.did)
	return nil
}

// confirm asks a question on the terminal.
func (a *app) confirm(question string) bool {
	fmt.Fprint(a.err, question)
	answer, _ := bufio.NewReader(a.in).ReadString('\n') // no answer is a no
	return slices.Contains([]string{"y", "yes"}, strings.ToLower(strings.TrimSpace(answer)))
}
