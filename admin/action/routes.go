package action

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/console"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/admin/server"
	"github.com/outriderhq/outrider/config"
)

var ofRoutes = []*Action{
	{
		Name: "pause", Role: operate.RoleOperate, Command: "pause", Title: "Pause", Plan: planPause, Do: pause,
		Summary: "Pause a route, or an address or a group of it",
	},
	{
		Name: "resume", Role: operate.RoleOperate, Command: "resume", Do: resume,
		Summary: "Resume a route, or an address or a group of it",
	},
	{
		Name: "seek", Role: operate.RoleAdmin, Command: "seek", Title: "Seek", Plan: planSeek, Do: seek,
		Summary: "Move a route to another place in its table",
	},
	{
		Name: "rebase", Role: operate.RoleAdmin, Command: "rebase", Title: "Rebase", Plan: planRebase, Do: rebase,
		Summary: "Reposition a route's cursor after its database was restored, or its table renamed",
	},
	{
		Name: "forget", Role: operate.RoleAdmin, Command: "route forget", Title: "Forget a route", Plan: planForget, Do: forget,
		Summary: "Delete the cursors, parked messages and pauses of a route that is gone",
	},
}

func planPause(_ context.Context, _ *console.Console, v url.Values) (*Plan, error) {
	return &Plan{
		Verb: "Pause", Fields: [][2]string{{"route", v.Get("route")}, {"address", v.Get("address")}, {"reason", v.Get("reason")}},
		Undone: []string{"Deliveries in flight are finished first. Nothing is lost: rows stay in the table until the route is resumed."},
	}, nil
}

// target is the route, address or group that a form pauses or resumes, and its name.
func target(ctx context.Context, v url.Values) (p adapters.Pause, name string, err error) {
	p = adapters.Pause{Route: v.Get("route"), Address: strings.TrimSpace(v.Get("address")), Group: strings.TrimSpace(v.Get("group")),
		Reason: v.Get("reason"), By: operate.PageAuthor(ctx)}
	switch name = "route " + p.Route; {
	case p.Address != "" && p.Group != "":
		err = server.Failed(http.StatusUnprocessableEntity, "give an address or a group, not both")
	case v.Has("part") && p.OfRoute():
		err = server.Failed(http.StatusUnprocessableEntity, "nothing was paused: give an address or a group; to pause all of route %s use the button Pause %[1]s", p.Route)
	case p.Group != "":
		name = "group " + p.Group + " of " + name
	case p.Address != "":
		name = "address " + operate.ShownAddress(p.Address) + " of " + name
	}
	return p, name, err
}

func pause(ctx context.Context, c *console.Console, v url.Values) (string, error) {
	return switchPause(ctx, c, v, (*operate.Operator).Pause, "Paused %. Instances finish what is in flight.", "Nothing changed: % is paused already.")
}

func resume(ctx context.Context, c *console.Console, v url.Values) (string, error) {
	return switchPause(ctx, c, v, (*operate.Operator).Resume, "Resumed %.", "Nothing changed: % is not paused.")
}

// switchPause pauses or resumes. In both sentences % is the name of what it does that to.
func switchPause(ctx context.Context, c *console.Console, v url.Values,
	do func(*operate.Operator, context.Context, adapters.Pause) (bool, error), done, unchanged string,
) (string, error) {
	p, name, err := target(ctx, v)
	if err != nil {
		return "", err
	}
	changed := false
	err = c.Use(ctx, func(op *operate.Operator) (err error) {
		if err := op.Known(ctx, p.Route); err != nil {
			return err
		}
		changed, err = do(op, ctx, p)
		return err
	})
	if !changed {
		done = unchanged
	}
	return strings.ReplaceAll(done, "%", name), err
}

// relocation plans a seek or a rebase.
type relocation func(context.Context, *operate.Operator, url.Values) (*operate.Relocation, error)

func seekPlan(ctx context.Context, op *operate.Operator, v url.Values) (*operate.Relocation, error) {
	to, err := operate.ParseTarget(strings.TrimSpace(v.Get("to")), time.Now())
	if err != nil {
		return nil, operate.Mistake{Err: err}
	}
	return op.PlanSeek(ctx, v.Get("route"), to)
}

func rebasePlan(ctx context.Context, op *operate.Operator, v url.Values) (*operate.Relocation, error) {
	ctx, cancel := context.WithTimeout(ctx, RequestTime)
	defer cancel()
	return op.Rebasing(ctx, v.Get("route"), v.Get("force") != "", v.Get("adopt") != "")
}

// plan makes the plan of a page.
func (f relocation) plan(ctx context.Context, c *console.Console, v url.Values, verb string, fields ...string) (*Plan, error) {
	var r *operate.Relocation
	err := c.Use(ctx, func(op *operate.Operator) (err error) {
		r, err = f(ctx, op, v)
		return err
	})
	if err != nil {
		return nil, err
	}
	p := &Plan{Verb: verb + r.To, Grave: true, Unit: "rows", Selected: [][2]string{{"route", r.Route}}, Back: "/route/" + url.PathEscape(r.Route)}
	for _, name := range fields {
		p.Fields = append(p.Fields, [2]string{name, strings.TrimSpace(v.Get(name))})
	}
	p.Undone = []string{"The source cannot count the rows that this concerns."}
	if r.Counted {
		p.Count, p.More = r.Again.Rows+r.Skipped.Rows, r.Again.More || r.Skipped.More
		p.Undone = []string{AtLeast(r.Again.Rows, r.Again.More) + " settled rows will be delivered again.",
			AtLeast(r.Skipped.Rows, r.Skipped.More) + " rows will not be delivered, " + Thousands(r.Late.Rows) + " of them committed late."}
	}
	p.Undone = append(p.Undone, "Repeated deliveries cannot be taken back. Skipped rows stay in the table: seek back to deliver them.")
	return p, nil
}

// do plans again, and carries it out.
func (f relocation) do(ctx context.Context, c *console.Console, v url.Values, where string) (said string, err error) {
	err = c.Use(ctx, func(op *operate.Operator) error {
		r, err := f(ctx, op, v)
		if err != nil {
			return err
		}
		said = "Route " + r.Route + where + r.To + "."
		return op.Relocate(ctx, r, operate.PageAuthor(ctx))
	})
	return said, err
}

func planSeek(ctx context.Context, c *console.Console, v url.Values) (*Plan, error) {
	return relocation(seekPlan).plan(ctx, c, v, "Seek to ", "route", "to")
}

func seek(ctx context.Context, c *console.Console, v url.Values) (string, error) {
	return relocation(seekPlan).do(ctx, c, v, " continues at ")
}

func planRebase(ctx context.Context, c *console.Console, v url.Values) (*Plan, error) {
	return relocation(rebasePlan).plan(ctx, c, v, "Rebase to ", "route", "force", "adopt")
}

func rebase(ctx context.Context, c *console.Console, v url.Values) (string, error) {
	return relocation(rebasePlan).do(ctx, c, v, " continues in ")
}

// configured reports whether the configuration has a route: to forget it then has to be forced.
func configured(c *console.Console, route string) bool {
	return slices.ContainsFunc(c.Config().Routes, func(r config.Route) bool { return r.Name == route })
}

func planForget(ctx context.Context, c *console.Console, v url.Values) (*Plan, error) {
	route := v.Get("route")
	var kept operate.Kept
	err := c.Use(ctx, func(op *operate.Operator) (err error) {
		if err := op.CheckForget(ctx, route, true); err != nil {
			return err
		}
		kept, err = op.Kept(ctx, route)
		return err
	})
	if err != nil {
		return nil, err
	}
	p := &Plan{
		Verb: "Forget " + route, Grave: true, Count: kept.Parked, Selected: [][2]string{{"route", route}}, Back: "/route/" + url.PathEscape(route),
		Fields: [][2]string{{"route", route}, {"count", strconv.Itoa(kept.Parked)}},
		Undone: []string{"Deleted: " + Plural(kept.Lanes, "cursor", "cursors") + " (the highest at position " + Thousands(int(kept.Position)) + "), " +
			Plural(kept.Parked, "parked message", "parked messages") + " (" + Thousands(kept.Dead) + " dead) and " + Plural(kept.Pauses, "pause", "pauses") +
			". This cannot be undone.",
			"Retention may then remove rows that only this route needed."},
	}
	if configured(c, route) {
		p.Undone = append(p.Undone, "The route is in the configuration: it starts again as its start says, and delivers rows again or skips them.")
	}
	return p, nil
}

func forget(ctx context.Context, c *console.Console, v url.Values) (said string, err error) {
	route := v.Get("route")
	err = c.Use(ctx, func(op *operate.Operator) error {
		kept, err := op.Kept(ctx, route)
		if err != nil {
			return err
		}
		if v.Get("count") != strconv.Itoa(kept.Parked) {
			return server.Failed(http.StatusConflict, "%s are parked now, and another number was confirmed: look at it again", Plural(kept.Parked, "message", "messages"))
		}
		gone, err := op.Forget(ctx, route, configured(c, route), operate.PageAuthor(ctx))
		said = "Forgot route " + route + ": " + Plural(gone.Lanes, "cursor", "cursors") + ", " + Plural(gone.Parked, "parked message", "parked messages") +
			", " + Plural(gone.Pauses, "pause", "pauses") + "."
		return err
	})
	return said, err
}
