package web

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/outriderhq/outrider/admin/operate"
)

func (s *pages) confirmSeek(ctx context.Context, q url.Values, d *confirmData) error {
	route, to := q.Get("route"), strings.TrimSpace(q.Get("to"))
	plan, err := s.planSeek(ctx, route, to)
	if err != nil {
		return err
	}
	d.Fields = [][2]string{{"route", route}, {"to", to}, {"count", strconv.Itoa(plan.Again.Rows + plan.Skipped.Rows)}}
	d.Chips, d.Back = []chip{{Name: "route", Value: route}}, "/route/"+pathOf(route)
	d.Verb = "Seek to " + plan.To
	d.moves(plan)
	return nil
}

// moves describes what a seek or a rebase does.
func (d *confirmData) moves(plan *operate.Relocation) {
	d.Grave = true
	if plan.Counted {
		d.Count, d.More = plan.Again.Rows+plan.Skipped.Rows, plan.Again.More || plan.Skipped.More
		d.Undone = append(d.Undone, plus(plan.Again.Rows, plan.Again.More)+" settled rows will be delivered again.",
			plus(plan.Skipped.Rows, plan.Skipped.More)+" rows will not be delivered, "+number(plan.Late.Rows)+" of them committed late.")
	} else {
		d.Undone = append(d.Undone, "The source cannot count the rows that this concerns.")
	}
	d.Undone = append(d.Undone, "Repeated deliveries cannot be taken back. Skipped rows stay in the table: seek back to deliver them.")
}

// planSeek plans a seek.
func (s *pages) planSeek(ctx context.Context, route, to string) (plan *operate.Relocation, err error) {
	place, err := operate.ParsePlace(to, time.Now())
	if err != nil {
		return nil, failed(http.StatusUnprocessableEntity, "%v", err)
	}
	err = s.console.Use(ctx, func(op *operate.Operator) (err error) {
		plan, err = op.PlanSeek(ctx, route, place)
		return err
	})
	return plan, err
}

func (s *pages) seek(ctx context.Context, form url.Values) (said string, err error) {
	route := form.Get("route")
	plan, err := s.planSeek(ctx, route, strings.TrimSpace(form.Get("to")))
	if err != nil {
		return "", err
	}
	err = s.console.Use(ctx, func(op *operate.Operator) error { return op.Relocate(ctx, plan, operate.PageAuthor(ctx)) })
	return "Route " + route + " continues at " + plan.To + ".", err
}

// planRebase plans to reposition a route's cursor.
func (s *pages) planRebase(ctx context.Context, values url.Values) (plan *operate.Relocation, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	err = s.console.Use(ctx, func(op *operate.Operator) (err error) {
		plan, err = op.Rebasing(ctx, values.Get("route"), values.Get("force") != "", values.Get("adopt") != "")
		return err
	})
	return plan, err
}

func (s *pages) confirmRebase(ctx context.Context, q url.Values, d *confirmData) error {
	plan, err := s.planRebase(ctx, q)
	if err != nil {
		return err
	}
	d.Chips, d.Back = []chip{{Name: "route", Value: plan.Route}}, "/route/"+pathOf(plan.Route)
	d.Fields = [][2]string{{"route", plan.Route}, {"force", q.Get("force")}, {"adopt", q.Get("adopt")}}
	d.Verb = "Rebase to " + plan.To
	d.moves(plan)
	return nil
}

func (s *pages) rebase(ctx context.Context, form url.Values) (said string, err error) {
	plan, err := s.planRebase(ctx, form)
	if err != nil {
		return "", err
	}
	err = s.console.Use(ctx, func(op *operate.Operator) error { return op.Relocate(ctx, plan, operate.PageAuthor(ctx)) })
	return "Route " + plan.Route + " continues in " + plan.To + ".", err
}

// forced reports whether a route is to be forgotten that the configuration has.
func (s *pages) forced(route string) bool {
	_, ok := s.ways()[route]
	return ok
}

func (s *pages) confirmForget(ctx context.Context, q url.Values, d *confirmData) error {
	route := q.Get("route")
	var kept operate.Kept
	err := s.console.Use(ctx, func(op *operate.Operator) (err error) {
		if err := op.CheckForget(ctx, route, true); err != nil {
			return err
		}
		kept, err = op.Kept(ctx, route)
		return err
	})
	if err != nil {
		return err
	}
	d.Chips, d.Back = []chip{{Name: "route", Value: route}}, "/route/"+pathOf(route)
	d.Fields = [][2]string{{"route", route}, {"count", strconv.Itoa(kept.Parked)}}
	d.Verb, d.Grave, d.Count = "Forget "+route, true, kept.Parked
	d.Undone = []string{"Deleted: " + plural(kept.Lanes, "cursor", "cursors") + " (the highest at position " + number(kept.Position) + "), " +
		plural(kept.Parked, "parked message", "parked messages") + " (" + number(kept.Dead) + " dead) and " + plural(kept.Pauses, "pause", "pauses") + ". This cannot be undone.",
		"Retention may then remove rows that only this route needed."}
	if s.forced(route) {
		d.Undone = append(d.Undone, "The route is in the configuration: it starts again as its start says, and delivers rows again or skips them.")
	}
	return nil
}

func (s *pages) forget(ctx context.Context, form url.Values) (said string, err error) {
	route := form.Get("route")
	err = s.console.Use(ctx, func(op *operate.Operator) error {
		kept, err := op.Kept(ctx, route)
		if err == nil && form.Get("count") != strconv.Itoa(kept.Parked) {
			return failed(http.StatusConflict, "%s are parked now, and another number was confirmed: look at it again", plural(kept.Parked, "message", "messages"))
		}
		if err != nil {
			return err
		}
		gone, err := op.Forget(ctx, route, s.forced(route), operate.PageAuthor(ctx))
		said = "Forgot route " + route + ": " + plural(gone.Lanes, "cursor", "cursors") + ", " + plural(gone.Parked, "parked message", "parked messages") + ", " + plural(gone.Pauses, "pause", "pauses") + "."
		return err
	})
	return said, err
}
