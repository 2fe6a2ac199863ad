package action

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/console"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/admin/server"
)

var ofOperations = []*Action{
	{
		Name: "seek-routes", Role: operate.RoleAdmin, Order: "create-operation", Title: "Seek many routes", Plan: planSeekRoutes, Do: seekRoutes,
	},
	{
		Name: "stop-operation", Role: operate.RoleOperate, Command: "operations stop", Do: stopOperation,
		Summary: "Stop an operation after its current step",
	},
	{
		Name: "resume-operation", Role: operate.RoleOperate, Command: "operations resume", Do: resumeOperation,
		Summary: "Resume a stopped or failed operation; a purge or seek needs the role admin",
	},
}

// Started begins what is said of an operation that was ordered.
const Started = "Started the operation "

// RoleFor is the role that a caller needs to order a kind of operation.
func RoleFor(kind adapters.OperationKind) operate.Role {
	all := slices.Concat(ofRoutes, ofMessages)
	return all[slices.IndexFunc(all, func(a *Action) bool { return a.Name == string(kind) })].Role
}

// namesMost is how many routes a plan names.
const namesMost = 20

// seekOrder plans a seek of many routes: names or patterns, separated by commas or spaces.
func seekOrder(ctx context.Context, op *operate.Operator, v url.Values) (*operate.OperationPlan, error) {
	routes := strings.FieldsFunc(v.Get("routes"), func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
	if len(routes) == 0 {
		return nil, server.Failed(http.StatusUnprocessableEntity, "say which routes, such as eu-*; * means all")
	}
	to, err := operate.ParseTarget(strings.TrimSpace(v.Get("to")), time.Now())
	if err != nil {
		return nil, operate.Mistake{Err: err}
	}
	plan, err := op.PlanOperation(ctx, operate.OperationOrder{Kind: adapters.OperationSeek, Routes: routes, To: to, By: operate.PageAuthor(ctx)})
	if errors.Is(err, path.ErrBadPattern) {
		err = operate.Mistake{Err: err}
	}
	return plan, err
}

func planSeekRoutes(ctx context.Context, c *console.Console, v url.Values) (p *Plan, err error) {
	return p, c.Use(ctx, func(op *operate.Operator) error {
		plan, err := seekOrder(ctx, op, v)
		if err != nil {
			return err
		}
		names, more := plan.Routes, ""
		if len(names) > namesMost {
			names, more = names[:namesMost], " and "+Thousands(len(names)-namesMost)+" more"
		}
		routes, to := [2]string{"routes", v.Get("routes")}, [2]string{"to", strings.TrimSpace(v.Get("to"))}
		p = &Plan{
			Verb: "Seek " + Plural(plan.Total, "route", "routes"), Grave: true, Count: plan.Total, Unit: "routes", Back: "/operations",
			Selected: [][2]string{routes, to}, Fields: [][2]string{routes, to, {"count", strconv.Itoa(plan.Total)}},
			Undone: []string{
				strings.Join(names, ", ") + more + ".",
				"Each route continues at the new place. A move back delivers rows again, a move forwards skips rows. To see how many rows of one route that is, seek on its own page.",
				"Repeated deliveries cannot be taken back. Skipped rows stay in the table: seek back to deliver them.",
				"The routes are moved one after the other: the page Operations shows the progress and can stop it.",
			},
		}
		return nil
	})
}

// seekRoutes orders a seek of the routes that were confirmed.
func seekRoutes(ctx context.Context, c *console.Console, v url.Values) (said string, err error) {
	err = c.Use(ctx, func(op *operate.Operator) error {
		plan, err := seekOrder(ctx, op, v)
		if err != nil {
			return err
		}
		routes := Plural(plan.Total, "route", "routes")
		if v.Get("count") != strconv.Itoa(plan.Total) {
			return server.Failed(http.StatusConflict, "%s match now, and another number was confirmed: look at it again", routes)
		}
		_, err = op.StartOperation(ctx, plan)
		said = Started + "seek of " + routes + "."
		return err
	})
	return said, err
}

func stopOperation(ctx context.Context, c *console.Console, v url.Values) (string, error) {
	return switchOperation(ctx, c, v.Get("id"), (*operate.Operator).StopOperation, "Stopped. Messages that were changed stay changed.")
}

func resumeOperation(ctx context.Context, c *console.Console, v url.Values) (string, error) {
	return switchOperation(ctx, c, v.Get("id"), (*operate.Operator).ResumeOperation, "Resumed. It continues where it stopped.")
}

// switchOperation stops an operation, or resumes it.
func switchOperation(ctx context.Context, c *console.Console, id string,
	do func(op *operate.Operator, ctx context.Context, id, by string) (bool, error), said string,
) (string, error) {
	changed := false
	err := c.Use(ctx, func(op *operate.Operator) error {
		o, err := op.Operation(ctx, id)
		if err != nil {
			return err
		}
		if need := RoleFor(o.Kind); operate.CallerOf(ctx).Role < need {
			return server.Failed(http.StatusForbidden, "this operation needs the role %s", need)
		}
		changed, err = do(op, ctx, id, operate.PageAuthor(ctx))
		return err
	})
	if !changed {
		said = "Nothing changed: the operation has ended, or another operator was first."
	}
	return said, err
}
