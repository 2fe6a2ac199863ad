package main

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/admin/console"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/admin/status"
	"github.com/outriderhq/outrider/config"
)

// statusView has the selection of a call of status.
type statusView struct {
	routes []string // names or patterns; empty: all
	states []string
	lanes  bool
	all    bool // also list routes that are ok in a long table
	watch  bool
	every  time.Duration
	output *output
}

func (a *app) statusCommand() *cobra.Command {
	v := &statusView{}
	c := &cobra.Command{
		Use:   "status [ROUTE...]",
		Short: "Show the state of each route, how far it is behind and what is parked",
		Long: `Shows one line per route, the worst state first. Below the table it explains each
problem and suggests what to do. A ROUTE may be a pattern such as "eu-*".

States, worst first:
` + stateHelp(),
		ValidArgsFunction: a.completeRoutes,
	}
	v.output = outputFlag(c)
	flags := c.Flags()
	flags.BoolVar(&v.lanes, "lanes", false, "one line per lane instead of per route")
	flags.StringSliceVar(&v.states, "state", nil, "only routes in these `states`, separated by commas")
	flags.BoolVar(&v.all, "all", false, "list every route; by default a long table only counts routes that are ok")
	flags.BoolVarP(&v.watch, "watch", "w", false, "refresh until Ctrl-C")
	flags.DurationVar(&v.every, "every", 2*time.Second, "refresh interval of --watch")
	_ = c.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(stateNames(), cobra.ShellCompDirectiveNoFileComp))
	c.RunE = func(c *cobra.Command, args []string) error {
		v.routes = args
		if err := v.check(); err != nil {
			return err
		}
		return a.operate(c.Context(), func(cfg *config.Config, op *operate.Operator) error {
			if v.watch {
				return a.watchStatus(c.Context(), cfg, op, v)
			}
			return a.showStatus(c.Context(), cfg, op, v)
		})
	}
	return c
}

// check refuses what cannot be meant.
func (v *statusView) check() error {
	for _, s := range v.states {
		if !slices.Contains(stateNames(), s) {
			return wrong("--state %q is none of %s", s, strings.Join(stateNames(), ", "))
		}
	}
	for _, r := range v.routes {
		if _, err := path.Match(r, ""); err != nil {
			return wrong("route pattern %q: %w", r, err)
		}
	}
	if v.lanes && len(v.states) > 0 {
		return wrong("--state is a state of routes: leave out --lanes")
	}
	if v.every <= 0 {
		return wrong("--every must be more than 0")
	}
	return nil
}

// operate opens the state for f.
func (a *app) operate(ctx context.Context, f func(*config.Config, *operate.Operator) error) (err error) {
	cfg, err := a.loadState()
	if err != nil {
		return err
	}
	op, err := operate.NewOperator(ctx, cfg, outrider.WithLogger(a.logger(cfg, "warn")))
	if err != nil {
		return err
	}
	return errors.Join(explainMissing(f(cfg, op)), op.Close())
}

// explainMissing says what to do about state tables that are not there.
func explainMissing(err error) error {
	var state interface{ SQLState() string } // of PostgreSQL
	if errors.As(err, &state) && state.SQLState() == "42P01" ||
		err != nil && strings.Contains(err.Error(), "no such table: outrider_") {
		what, _, _ := strings.Cut(err.Error(), "; ") // behind it is what a program would do
		return fmt.Errorf("%s: the state tables do not exist yet: `outrider init` or `outrider run` creates them", what)
	}
	return err
}

// watchStatus shows the status until Ctrl-C, each time on a cleared terminal.
func (a *app) watchStatus(ctx context.Context, cfg *config.Config, op *operate.Operator, v *statusView) error {
	return untilSignal(ctx, func(string) {}, func(ctx context.Context) error {
		tick := time.NewTicker(v.every)
		defer tick.Stop()
		for {
			if terminal(a.out) {
				fmt.Fprint(a.out, "\x1b[H\x1b[2J")
			}
			if !v.output.json() {
				fmt.Fprintf(a.out, "%s, every %s; Ctrl-C ends it\n\n", time.Now().Format(time.TimeOnly), v.every)
			}
			if err := a.showStatus(ctx, cfg, op, v); err != nil && ctx.Err() == nil {
				return err
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return nil
			}
		}
	})
}

// showStatus reads and prints the status once.
func (a *app) showStatus(ctx context.Context, cfg *config.Config, op *operate.Operator, v *statusView) error {
	if v.lanes {
		found, err := op.Lanes(ctx)
		if err != nil {
			return err
		}
		instances, err := op.Instances(ctx)
		if err != nil {
			return err
		}
		rows := slices.DeleteFunc(status.EachLane(found), func(p status.RouteStatus) bool { return !v.wants(p.Route) })
		if v.output.json() {
			return a.printJSON(statusAnswer{rows, status.MembersOf(instances, found)})
		}
		return a.printLanes(rows)
	}
	running, relay := console.RunningRoutes(ctx, op)
	rows, members, err := op.Status(ctx, running, v.wants)
	if err != nil {
		return err
	}
	if len(rows) == 0 && len(v.routes) > 0 {
		return wrong("no route matches %s: the configuration has %s", strings.Join(v.routes, ", "), routeNames(cfg))
	}
	rows = slices.DeleteFunc(rows, func(p status.RouteStatus) bool {
		return len(v.states) > 0 && !slices.Contains(v.states, string(p.State))
	})
	if v.output.json() {
		return a.printJSON(statusAnswer{rows, members})
	}
	if err := a.printStatus(rows, v); err != nil {
		return err
	}
	if err := a.printOwners(rows, members); err != nil {
		return err
	}
	a.printStops(rows)
	if errors.Is(relay, console.ErrOtherRelay) {
		fmt.Fprintf(a.err, "\nunavailable addresses are not shown: %v\n", relay)
	}
	return nil
}

// wants reports whether a route was asked for.
func (v *statusView) wants(route string) bool {
	return len(v.routes) == 0 || slices.ContainsFunc(v.routes, func(pattern string) bool {
		ok, _ := path.Match(pattern, route) // has been checked
		return ok
	})
}

// longTable is how many routes a table lists whatever their state.
const longTable = 40

// printStatus writes a line per route. Where there are many, those that are ok
// are only counted unless they were asked for.
func (a *app) printStatus(rows []status.RouteStatus, v *statusView) error {
	hidden := 0
	if len(rows) > longTable && !v.all && len(v.routes) == 0 && len(v.states) == 0 {
		all := len(rows)
		rows = slices.DeleteFunc(slices.Clone(rows), func(p status.RouteStatus) bool { return p.State == status.StateOK })
		hidden = all - len(rows)
	}
	var cells [][]string
	for _, r := range rows {
		cells = append(cells, []string{r.Route, string(r.State), strconv.Itoa(r.Lanes), ownerOf(&r), strconv.FormatInt(r.Position, 10), behind(&r),
			strconv.Itoa(r.Retrying), strconv.Itoa(r.Waiting), strconv.Itoa(r.Held), deadOf(&r), since(r.UpdatedAt)})
	}
	if len(cells) > 0 {
		headings := []string{"ROUTE", "STATE", "LANES", "OWNER", "POSITION", "BEHIND", "RETRYING", "WAITING", "HELD", "DEAD", "UPDATED"}
		if err := a.printTable(headings, cells); err != nil {
			return err
		}
	}
	if hidden > 0 {
		fmt.Fprintf(a.out, "and %s ok: --all lists them\n", counted(hidden, "route"))
	}
	return nil
}

// printLanes writes a line per lane.
func (a *app) printLanes(rows []status.RouteStatus) error {
	var cells [][]string
	for _, r := range rows {
		cells = append(cells, []string{r.Route, fmt.Sprintf("%02d", *r.Slot), ownerOf(&r), strconv.FormatInt(r.Position, 10),
			strconv.Itoa(r.Retrying), strconv.Itoa(r.Waiting), strconv.Itoa(r.Held), strconv.Itoa(r.Dead), since(r.UpdatedAt),
			since(r.Since), strconv.FormatInt(r.Epoch, 10)})
	}
	return a.printTable([]string{"ROUTE", "SLOT", "OWNER", "POSITION", "RETRYING", "WAITING", "HELD", "DEAD", "UPDATED", "SINCE", "EPOCH"}, cells)
}

func routeNames(cfg *config.Config) string {
	var names []string
	for _, r := range cfg.Routes {
		names = append(names, r.Name)
	}
	return strings.Join(names, ", ")
}

// completeRoutes offers the names of routes to the shell.
func (a *app) completeRoutes(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	cfg, err := a.loadState()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, r := range cfg.Routes {
		names = append(names, r.Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

func stateNames() []string {
	var names []string
	for _, s := range status.RouteStates {
		names = append(names, string(s.State))
	}
	return names
}

func stateHelp() string {
	var b strings.Builder
	for _, s := range status.RouteStates {
		fmt.Fprintf(&b, "  %-12s %s\n", s.State, s.Meaning)
	}
	return strings.TrimRight(b.String(), "\n")
}
