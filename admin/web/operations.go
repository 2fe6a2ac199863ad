package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/operate"
)

// operationLine is an operation and what it is about.
type operationLine struct {
	adapters.Operation
	About []chip
}

type operationsData struct {
	Lines []operationLine
	More  bool
}

// operationsMost is how many operations the page shows, the newest.
const operationsMost = 50

func (s *pages) operations(r *http.Request) (*page, error) {
	ctx := r.Context()
	var d operationsData
	err := s.console.Use(ctx, func(op *operate.Operator) error {
		found, err := op.Operations(ctx, adapters.OperationFilter{Limit: operationsMost + 1})
		d.More = len(found) > operationsMost
		for _, o := range found[:min(len(found), operationsMost)] {
			d.Lines = append(d.Lines, operationLine{o, aboutOperation(&o)})
		}
		return err
	})
	return &page{Name: "operations", Title: "Operations", Data: d}, err
}

// aboutOperation is what an operation changes, by the names of the filter.
func aboutOperation(o *adapters.Operation) (about []chip) {
	set := func(name, value string) {
		if value != "" {
			about = append(about, chip{Name: name, Value: value})
		}
	}
	f := &o.Filter
	set("route", f.Route)
	set("status", string(f.Status))
	set("type", f.Type)
	set("group", f.Group)
	set("id", f.ID)
	set("error", f.Error)
	if f.Failure != 0 {
		set("failure", fmt.Sprintf("%016x", f.Failure))
	}
	if !f.Before.IsZero() {
		set("before", exact(f.Before))
	}
	set("routes", strings.Join(o.Routes, ", "))
	set("to", o.To)
	return about
}

// background is from how many messages a change is an operation, with its progress.
const background = 1000

// start orders a change of many messages as an operation.
func (s *pages) start(ctx context.Context, c adapters.ParkedCommand, rate int) (said string, err error) {
	err = s.console.Use(ctx, func(op *operate.Operator) error {
		plan, err := op.PlanOperation(ctx, operate.OperationOrder{Kind: adapters.OperationKind(c.Action), Filter: c.Filter, All: c.All, Rate: float64(rate), By: c.By})
		if err != nil {
			return err
		}
		started, err := op.StartOperation(ctx, plan)
		said = "Started the operation " + string(c.Action) + " of " + plural(plan.Total, "message", "messages") + "."
		if len(started) == 0 {
			said = "Nothing to " + string(c.Action) + " any more."
		}
		return err
	})
	return said, err
}

// planRoutes plans a seek of many routes: names or patterns, apart by commas or spaces.
func planRoutes(ctx context.Context, op *operate.Operator, values url.Values) (*operate.OperationPlan, error) {
	routes := strings.FieldsFunc(values.Get("routes"), func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
	if len(routes) == 0 {
		return nil, failed(http.StatusUnprocessableEntity, "say which routes, such as eu-*; * means all")
	}
	to, err := operate.ParsePlace(strings.TrimSpace(values.Get("to")), time.Now())
	if err != nil {
		return nil, failed(http.StatusUnprocessableEntity, "%v", err)
	}
	plan, err := op.PlanOperation(ctx, operate.OperationOrder{Kind: adapters.OperationSeek, Routes: routes, To: to, By: operate.PageAuthor(ctx)})
	if errors.Is(err, path.ErrBadPattern) {
		err = failed(http.StatusUnprocessableEntity, "%v", err)
	}
	return plan, err
}

func (s *pages) confirmSeekOfRoutes(ctx context.Context, q url.Values, d *confirmData) error {
	return s.console.Use(ctx, func(op *operate.Operator) error {
		plan, err := planRoutes(ctx, op, q)
		if err != nil {
			return err
		}
		to := strings.TrimSpace(q.Get("to"))
		d.Chips, d.Back = []chip{{Name: "routes", Value: q.Get("routes")}, {Name: "to", Value: to}}, "/operations"
		d.Fields = [][2]string{{"routes", q.Get("routes")}, {"to", to}, {"count", strconv.Itoa(plan.Total)}}
		d.Count, d.Verb, d.Grave = plan.Total, "Seek "+plural(plan.Total, "route", "routes"), true
		names := plan.Routes
		more := ""
		if len(names) > namesMost {
			names, more = names[:namesMost], " and "+number(len(names)-namesMost)+" more"
		}
		d.Undone = []string{
			strings.Join(names, ", ") + more + ".", "Each route continues at the new place. A move back delivers rows again, a move forwards skips rows. To see how many rows of one route that is, seek on its own page.",
			"Repeated deliveries cannot be taken back. Skipped rows stay in the table: seek back to deliver them.",
			"The routes are moved one after the other: the page Operations shows the progress and can stop it.",
		}
		return nil
	})
}

// namesMost is how many routes a confirmation names.
const namesMost = 20

// seekRoutes orders a seek of the routes that the caller confirmed.
func (s *pages) seekRoutes(ctx context.Context, form url.Values) (said string, err error) {
	err = s.console.Use(ctx, func(op *operate.Operator) error {
		plan, err := planRoutes(ctx, op, form)
		if err != nil {
			return err
		}
		if form.Get("count") != strconv.Itoa(plan.Total) {
			return failed(http.StatusConflict, "%s match now, and another number was confirmed: look at it again", plural(plan.Total, "route", "routes"))
		}
		_, err = op.StartOperation(ctx, plan)
		said = "Started the operation seek of " + plural(plan.Total, "route", "routes") + "."
		return err
	})
	return said, err
}

// operate stops an operation, or makes one go on.
func (s *pages) operate(ctx context.Context, action string, form url.Values) (said string, err error) {
	id := form.Get("id")
	err = s.console.Use(ctx, func(op *operate.Operator) error {
		o, err := op.Operation(ctx, id)
		if err != nil {
			return err
		}
		if need := roles[string(o.Kind)]; operate.CallerOf(ctx).Role < need {
			return failed(http.StatusForbidden, "this operation needs the role %s", need)
		}
		var changed bool
		if action == "stop-operation" {
			changed, err = op.StopOperation(ctx, id, operate.PageAuthor(ctx))
			said = "Stopped. Messages that were changed stay changed."
		} else {
			changed, err = op.ResumeOperation(ctx, id, operate.PageAuthor(ctx))
			said = "Resumed. It continues where it stopped."
		}
		if !changed {
			said = "Nothing changed: the operation has ended, or another operator was first."
		}
		return err
	})
	return said, err
}
