package web

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin"
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

func (s *server) operations(r *http.Request) (*page, error) {
	ctx := r.Context()
	var d operationsData
	err := s.console.Use(ctx, func(op *admin.Operator) error {
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
func (s *server) start(ctx context.Context, c adapters.ParkedCommand) (said string, err error) {
	err = s.console.Use(ctx, func(op *admin.Operator) error {
		plan, err := op.PlanOperation(ctx, admin.OperationOrder{Kind: adapters.OperationKind(c.Action), Filter: c.Filter, All: c.All, By: c.By})
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

// operate stops an operation, or makes one go on.
func (s *server) operate(ctx context.Context, action string, form url.Values) (said string, err error) {
	id := form.Get("id")
	err = s.console.Use(ctx, func(op *admin.Operator) error {
		o, err := op.Operation(ctx, id)
		if err != nil {
			return err
		}
		if need := roles[string(o.Kind)]; admin.CallerOf(ctx).Role < need {
			return failed(http.StatusForbidden, "this operation needs the role %s", need)
		}
		var changed bool
		if action == "stop-operation" {
			changed, err = op.StopOperation(ctx, id, admin.PageAuthor(ctx))
			said = "Stopped. What was done stays done."
		} else {
			changed, err = op.ResumeOperation(ctx, id, admin.PageAuthor(ctx))
			said = "It goes on where it was."
		}
		if !changed {
			said = "Nothing changed: the operation has ended, or was so already."
		}
		return err
	})
	return said, err
}
