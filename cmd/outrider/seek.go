package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/config"
)

// moving is a call of seek or rebase.
type moving struct {
	yes, dryRun, machine bool
	by                   string
}

// moved is what seek and rebase did or would do, for machines.
type moved struct {
	Route       string   `json:"route"`
	Action      string   `json:"action"`
	To          string   `json:"to"`
	Again       int      `json:"again"`                  // rows that are delivered a second time
	Skipped     int      `json:"skipped"`                // rows that are not delivered
	SkippedLate int      `json:"skipped_late,omitempty"` // of those, committed late, below where the route stands
	AtLeast     bool     `json:"at_least,omitempty"`
	RunningOn   []string `json:"running_on"`
	Applied     bool     `json:"applied"`
	description string
}

func movingFlags(c *cobra.Command, m *moving) *output {
	flags := c.Flags()
	flags.BoolVar(&m.dryRun, "dry-run", false, "print what would happen, change nothing")
	flags.BoolVarP(&m.yes, "yes", "y", false, "do not ask for confirmation")
	flags.StringVar(&m.by, "by", "", "recorded in the audit log as the author; default: the user of this process")
	return outputFlag(c)
}

func (a *app) seekCommand() *cobra.Command {
	var m moving
	var to string
	c := &cobra.Command{
		Use:   "seek ROUTE --to PLACE",
		Short: "Move a route to another position: deliver again, or skip",
		Long: `Moves the cursors of a route. PLACE is one of

  beginning              deliver all rows in the table (again)
  end                    skip all rows that are in the table now
  2026-01-31T08:00:00Z   deliver rows created at or after that time; also 90m or 2d ago
  123456                 deliver the row at that position and all later ones

Parked messages do not change. You need not stop the relay: a running instance resumes
at the new position at once. Messages in flight at that moment may be delivered again;
to prevent that, run "outrider pause" first.`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeRoutes,
	}
	c.Flags().StringVar(&to, "to", "", "`place` to move to: beginning, end, a time, a span such as 90m, or a position")
	out := movingFlags(c, &m)
	c.RunE = func(c *cobra.Command, args []string) error {
		m.machine = out.json()
		if to == "" {
			return wrong("--to is needed: beginning, end, a time, a span of time, or a position")
		}
		place, err := operate.ParsePlace(to, time.Now())
		if err != nil {
			return wrong("--to %w", err)
		}
		return a.operate(c.Context(), func(_ *config.Config, op *operate.Operator) error {
			plan, err := op.PlanSeek(c.Context(), args[0], place)
			if err != nil {
				return unknownRoute(err)
			}
			return a.move(c.Context(), op, plan, m)
		})
	}
	return c
}

func (a *app) rebaseCommand() *cobra.Command {
	var m moving
	var force, adopt bool
	c := &cobra.Command{
		Use:   "rebase ROUTE",
		Short: "Reposition a route's cursor after its database was restored",
		Long: `Use it when a route has stopped because its database was restored elsewhere or recovered
to an earlier point. A cursor is valid only in the database cluster that it was written
for. Rebase moves it to the same row in the present database or, if that is uncertain,
to an earlier one: rows may be delivered again, but none is skipped. The command waits
for transactions that are writing to the table. A running instance then resumes automatically.

A cursor is also valid for one table only. With --adopt the route resumes from the cursor
of its former table. Use --adopt only if the present table has the same rows because it
was renamed or moved. If lanes are computed from other columns than before, it resumes
from the lane that is furthest behind. To start in a different table, use "outrider seek".`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeRoutes,
	}
	c.Flags().BoolVar(&force, "force", false, "also if the cursor is valid in this database")
	c.Flags().BoolVar(&adopt, "adopt", false, "the table was renamed or moved: resume from the cursor stored under its former name")
	out := movingFlags(c, &m)
	c.RunE = func(c *cobra.Command, args []string) error {
		m.machine = out.json()
		if force && adopt {
			return wrong("--force and --adopt exclude each other")
		}
		return a.operate(c.Context(), func(_ *config.Config, op *operate.Operator) error {
			plan, err := op.Rebasing(c.Context(), args[0], force, adopt)
			if err != nil {
				return unknownRoute(err)
			}
			return a.move(c.Context(), op, plan, m)
		})
	}
	return c
}

// move prints what a plan does, asks for confirmation, and carries it out.
func (a *app) move(ctx context.Context, op *operate.Operator, plan *operate.Relocation, m moving) error {
	result := describeMove(plan)
	if !m.machine {
		fmt.Fprintln(a.out, result.description)
	}
	if err := a.agree(m.yes || m.dryRun, plan.Action+" route "+plan.Route+"? [y/N] "); err != nil {
		return err
	}
	if !m.dryRun {
		if err := op.Relocate(ctx, plan, cmp.Or(m.by, currentUser())); err != nil {
			return err
		}
		result.Applied = true
	}
	if m.machine {
		return a.printJSON(result)
	}
	if m.dryRun {
		fmt.Fprintln(a.out, "nothing was changed (--dry-run)")
		return nil
	}
	fmt.Fprintln(a.out, "done")
	return nil
}

func describeMove(plan *operate.Relocation) moved {
	r := moved{Route: plan.Route, Action: plan.Action, To: plan.To, Again: plan.Again.Rows, Skipped: plan.Skipped.Rows, SkippedLate: plan.Late.Rows,
		AtLeast: plan.Again.More || plan.Skipped.More, RunningOn: append([]string{}, plan.Owners...)}
	lines := []string{fmt.Sprintf("route %s: %s to %s", plan.Route, plan.Action, plan.To)}
	if plan.Again.Rows > 0 {
		lines = append(lines, fmt.Sprintf("  %s already settled will be delivered again if the route matches them", atLeast(plan.Again)))
	}
	if plan.Skipped.Rows > 0 {
		lines = append(lines, fmt.Sprintf("  %s not settled yet will be skipped", atLeast(plan.Skipped)))
	}
	if plan.Late.Rows > 0 {
		lines = append(lines, fmt.Sprintf("  of those %s committed late, below the current position", atLeast(plan.Late)))
	}
	switch {
	case !plan.Counted:
		lines = append(lines, "  the number of rows cannot be counted for this source")
	case plan.Again.Rows+plan.Skipped.Rows == 0:
		lines = append(lines, "  no row lies between the current position and the new one")
	}
	if len(plan.Owners) > 0 {
		lines = append(lines, fmt.Sprintf("  %s runs the route and resumes at the new position; messages in flight may be delivered again", strings.Join(plan.Owners, ", ")))
	}
	r.description = strings.Join(lines, "\n")
	return r
}

func atLeast(b adapters.Backlog) string {
	if b.More {
		return "more than " + counted(b.Rows, "row")
	}
	return counted(b.Rows, "row")
}

// agree asks for confirmation unless --yes was given. Without a terminal, the
// answer has to be given.
func (a *app) agree(answered bool, question string) error {
	switch {
	case answered:
		return nil
	case !terminal(a.in):
		return wrong("stdin is not a terminal: pass --yes, or preview with --dry-run")
	case !a.confirm(question):
		return errors.New("nothing was changed")
	}
	return nil
}
