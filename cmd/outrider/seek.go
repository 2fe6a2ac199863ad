package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/operate"
)

// moved is the result or plan of seek and rebase, for machines.
type moved struct {
	Route       string   `json:"route"`
	Action      string   `json:"action"`
	To          string   `json:"to"`
	Again       int      `json:"again"`                  // rows that are delivered a second time
	Skipped     int      `json:"skipped"`                // rows that are not delivered
	SkippedLate int      `json:"skipped_late,omitempty"` // of those, committed late, below the route's cursor
	AtLeast     bool     `json:"at_least,omitempty"`
	RunningOn   []string `json:"running_on"`
	Applied     bool     `json:"applied"`
	description string
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

// moveCommand has a command plan a move of a route's cursors, show what it does, ask for confirmation and carry it out.
func (a *app) moveCommand(c *cobra.Command, plan func(*stateCall) (*operate.Relocation, error)) {
	dry := c.Flags().Bool("dry-run", false, "print what would happen, change nothing")
	c.Args, c.ValidArgsFunction = cobra.ExactArgs(1), a.completeRoutes
	a.actionCommand(c, true, func(c *stateCall) (any, error) {
		p, err := plan(c)
		if err != nil {
			return nil, err
		}
		r := describeMove(p)
		c.say(r.description)
		if *dry {
			c.say("nothing was changed (--dry-run)")
			return r, nil
		}
		if err = c.agree(p.Action + " route " + p.Route); err == nil {
			err = c.op.Relocate(c.ctx, p, c.by)
		}
		if err != nil {
			return nil, err
		}
		r.Applied = true
		c.say("done")
		return r, nil
	})
}

func (a *app) seekCommand() *cobra.Command {
	var to string
	var partition int
	var place operate.Target
	c := &cobra.Command{
		Use:   "seek ROUTE --to PLACE",
		Short: "Move a route to another position: deliver again, or skip",
		Long: `Moves the cursors of a route. PLACE is one of

  beginning              deliver all rows in the table (again)
  end                    skip all rows that are in the table now
  2026-01-31T08:00:00Z   deliver rows created at or after that time; also 90m or 2d ago
  123456                 deliver the row at that position and all later ones

With a source of type kafka a position is an offset, and needs --partition.
Parked messages do not change. You need not stop the relay: a running instance resumes
at the new position at once. Messages in flight at that moment may be delivered again;
to prevent that, run "outrider pause" first.`,
	}
	c.Flags().StringVar(&to, "to", "", "`place` to move to: beginning, end, a time, a span such as 90m, or a position")
	c.Flags().IntVar(&partition, "partition", 0, "move only this `partition` of a Kafka topic. Default: all")
	a.moveCommand(c, func(c *stateCall) (*operate.Relocation, error) { return c.op.PlanSeek(c.ctx, c.args[0], place) })
	return checked(c, func() (err error) {
		if to == "" {
			return wrong("--to is needed: beginning, end, a time, a span of time, or a position")
		}
		if place, err = operate.ParseTarget(to, time.Now()); err != nil {
			return wrong("--to %w", err)
		}
		if c.Flags().Changed("partition") {
			place.Partition = &partition
		}
		return nil
	})
}

func (a *app) rebaseCommand() *cobra.Command {
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
	}
	c.Flags().BoolVar(&force, "force", false, "also if the cursor is valid in this database")
	c.Flags().BoolVar(&adopt, "adopt", false, "the table was renamed or moved: resume from the cursor stored under its former name")
	a.moveCommand(c, func(c *stateCall) (*operate.Relocation, error) { return c.op.Rebasing(c.ctx, c.args[0], force, adopt) })
	return checked(c, func() error {
		if force && adopt {
			return wrong("--force and --adopt exclude each other")
		}
		return nil
	})
}
