package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/operate"
)

func (a *app) printRetention(all []adapters.RetentionStats, once bool) error {
	if len(all) == 0 {
		fmt.Fprintln(a.out, "no source has a retention")
		return nil
	}
	headings := []string{"SOURCE", "WOULD REMOVE", "OLDEST LEFT", "HELD BACK BY"}
	if once {
		headings[1] = "REMOVED"
	}
	var cells [][]string
	for _, s := range all {
		what := counted(int(s.Rows), "row")
		if s.Partitions > 0 {
			what = counted(int(s.Partitions), "partition") + ", " + what
		}
		oldest := ""
		if s.Oldest > 0 {
			oldest = rough(s.Oldest)
		}
		cells = append(cells, []string{s.Source, what, oldest, heldBy(s.Held)})
	}
	if err := a.printTable(headings, cells); err != nil {
		return err
	}
	for _, s := range all {
		if s.Waiting > 0 {
			fmt.Fprintf(a.out, "source %s: %s could not be dropped: %s\n", s.Source, counted(s.Waiting, "partition"), s.InTheWay)
		}
		if d := s.DatedAhead; d.By > 0 {
			fmt.Fprintf(a.out, "source %s: the oldest row of slot %d, at position %d, is dated %s in the future and stays until a row behind it is old enough; %s\n",
				s.Source, d.Slot, d.Position, rough(d.By), d.Fix)
		}
	}
	return nil
}

// heldBy lists the routes that hold rows back, with for how long.
func heldBy(held map[string]time.Duration) string {
	const most = 3
	text := ""
	for i, route := range slices.Sorted(maps.Keys(held)) {
		if i == most {
			return text + " and " + strconv.Itoa(len(held)-most) + " more"
		}
		if i > 0 {
			text += ", "
		}
		text += route + " for " + rough(held[route])
	}
	return text
}

func (a *app) retentionCommand() *cobra.Command {
	var once bool
	c := &cobra.Command{
		Use:   "retention",
		Short: "Show which rows of the outbox tables retention would remove, or remove them now",
		Long: `Counts the rows or partitions that retention would remove now from each source, and
shows which routes still need others. With --once it removes them. A running instance
removes them automatically.`,
		Args: noArgs,
	}
	c.Flags().BoolVar(&once, "once", false, "remove them now")
	return a.actionCommand(c, false, func(c *stateCall) (any, error) {
		all, err := c.op.Retain(c.ctx, !once, c.by)
		if err == nil && !c.machine {
			err = c.printRetention(all, once)
		}
		if err != nil {
			return nil, err
		}
		return retentionAnswer{once, operate.ViewRetention(all)}, nil
	})
}
