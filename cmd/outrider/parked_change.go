package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"os/user"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/outbox"
)

// change is a command that changes parked messages.
type change struct {
	filter outbox.ParkedFilter
	ids    []string
	all    bool
	dryRun bool
	yes    bool
	by     string

	does  string // for questions: "redrive"
	did   string // for reports: "redriven"
	apply func(*outrider.Operator, context.Context, outbox.ParkedFilter, string) (int, error)
}

// changeable are the statuses that a command without --status changes. Waiting
// messages have failed nothing: they follow the head of their group.
var changeable = []outbox.ParkedStatus{outbox.ParkedRetrying, outbox.ParkedHeld, outbox.ParkedDead}

func (a *app) redriveCommand() *cobra.Command {
	return a.changeCommand(&cobra.Command{
		Use:   "redrive [ID...]",
		Short: "Deliver dead, held or retrying messages again, now, their attempts forgotten",
	}, &change{does: "redrive", did: "redriven", apply: (*outrider.Operator).Redrive})
}

func (a *app) skipCommand() *cobra.Command {
	return a.changeCommand(&cobra.Command{
		Use:   "skip [ID...]",
		Short: "Give up on parked messages for good: they are deleted, their groups go on",
	}, &change{does: "skip", did: "skipped", apply: (*outrider.Operator).Skip})
}

func (a *app) changeCommand(c *cobra.Command, ch *change) *cobra.Command {
	c.Long = c.Short + `.
Name messages by id, or select them by filter, or take --all. Each call is
entered into the table outrider_audit.`
	filterFlags(c, &ch.filter)
	flags := c.Flags()
	flags.BoolVar(&ch.all, "all", false, "all parked messages but waiting ones; needed where there is no id and no filter")
	flags.BoolVar(&ch.dryRun, "dry-run", false, "only print how many there are")
	flags.BoolVarP(&ch.yes, "yes", "y", false, "do not ask")
	flags.StringVar(&ch.by, "by", "", "who asks, for the audit; default: the user of this process")
	c.RunE = func(c *cobra.Command, args []string) error {
		ch.ids = args
		if err := ch.check(); err != nil {
			return err
		}
		return a.operate(c.Context(), func(cfg *outrider.Config, op *outrider.Operator) error {
			if err := checkFilter(c.Context(), cfg, op, ch.filter); err != nil {
				return err
			}
			return a.change(c.Context(), op, ch)
		})
	}
	return c
}

func (ch *change) check() error {
	filtered := ch.filter != (outbox.ParkedFilter{}) || len(ch.ids) > 0
	switch {
	case filtered && ch.all:
		return wrong("--all takes neither ids nor a filter")
	case !filtered && !ch.all:
		return wrong("say which messages: ids, --route, --group, --status, or --all")
	case slices.Contains(ch.ids, ""):
		return wrong("an id is empty")
	case ch.does == "redrive" && ch.filter.Status == outbox.ParkedWaiting:
		return wrong("waiting messages cannot be redriven: they follow the head of their group, or their address")
	}
	return nil
}

// selections are the filters that make up what the command changes.
func (ch *change) selections() []outbox.ParkedFilter {
	var out []outbox.ParkedFilter
	switch {
	case ch.all:
		for _, status := range changeable {
			out = append(out, outbox.ParkedFilter{Status: status})
		}
	case len(ch.ids) > 0:
		for _, id := range ch.ids {
			f := ch.filter
			f.ID = id
			out = append(out, f)
		}
	default:
		out = append(out, ch.filter)
	}
	return out
}

func (a *app) change(ctx context.Context, op *outrider.Operator, ch *change) error {
	if ch.dryRun || !ch.yes && terminal(a.in) {
		n, err := ch.count(ctx, op)
		if err != nil {
			return err
		}
		if ch.dryRun || n == 0 {
			fmt.Fprintf(a.out, "%s would be %s\n", counted(n, "message"), ch.did)
			return nil
		}
		if !a.confirm(fmt.Sprintf("%s %s? [y/N] ", ch.does, counted(n, "message"))) {
			return fmt.Errorf("nothing was %s", ch.did)
		}
	}
	total := 0
	for _, f := range ch.selections() {
		n, err := ch.apply(op, ctx, f, cmp.Or(ch.by, currentUser()))
		total += n
		if err != nil {
			return fmt.Errorf("%s %s, then: %w", counted(total, "message"), ch.did, err)
		}
	}
	if total == 0 && len(ch.ids) > 0 {
		return fmt.Errorf("no message was %s: none that is retrying, held or dead has this id", ch.did)
	}
	fmt.Fprintf(a.out, "%s %s\n", counted(total, "message"), ch.did)
	return nil
}

func (ch *change) count(ctx context.Context, op *outrider.Operator) (int, error) {
	total := 0
	for _, f := range ch.selections() {
		statuses := changeable
		if f.Status != "" {
			statuses = []outbox.ParkedStatus{f.Status}
		}
		n, err := op.Count(ctx, f, statuses...)
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}

// confirm asks a question on the terminal.
func (a *app) confirm(question string) bool {
	fmt.Fprint(a.err, question)
	answer, _ := bufio.NewReader(a.in).ReadString('\n') // no answer is a no
	return slices.Contains([]string{"y", "yes"}, strings.ToLower(strings.TrimSpace(answer)))
}

func currentUser() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "unknown"
}
