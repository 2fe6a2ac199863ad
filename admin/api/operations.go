package api

import (
	"context"
	"net/http"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/action"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/admin/server"
)

// OperationOrder orders an operation.
type OperationOrder struct {
	Author
	ParkedQuery
	Kind   string   `json:"kind" enum:"redrive,skip,purge,seek"`
	Status string   `json:"status,omitempty" enum:"retrying,waiting,held,dead"`
	All    bool     `json:"all,omitempty" doc:"Every message that the kind can change; required without another filter."`
	Limit  int      `json:"limit,omitempty" minimum:"1" maximum:"1000000000" doc:"Most messages to change; absent: all that match."`
	Routes []string `json:"routes,omitempty" nullable:"false" maxItems:"1000" doc:"Of a seek: names of routes, or patterns such as eu-*."`
	To     string   `json:"to,omitempty" maxLength:"100" doc:"Of a seek: as of POST /routes/{route}/seek."`
	Rate   int      `json:"rate,omitempty" minimum:"1" maximum:"1000000" doc:"Messages or routes a second at most; absent: no limit."`
	DryRun bool     `json:"dry_run,omitempty" doc:"Only count."`
}

type operationOrderIn struct{ Body OperationOrder }

// OperationsOrdered has the subject of an order, and its operations.
type OperationsOrdered struct {
	DryRun     bool                    `json:"dry_run"`
	Matching   []CountView             `json:"matching" nullable:"false" doc:"Messages that are concerned now; of a seek none."`
	Routes     []string                `json:"routes" nullable:"false" doc:"Of a seek: the routes."`
	Total      int                     `json:"total" doc:"Messages or routes."`
	Operations []operate.OperationView `json:"operations" nullable:"false" doc:"One for each state store that has some; none for a dry run, or when nothing matches."`
}

// OperationIn names an operation.
type OperationIn struct {
	ID string `path:"id" maxLength:"100"`
}

type operationChangeIn struct {
	OperationIn
	Body Author
}

type operationsIn struct {
	Page
	Active bool `query:"active" doc:"Only those that are planned or running."`
}

// OperationChanged is an operation after a stop or resume.
type OperationChanged struct {
	Changed   bool                  `json:"changed" doc:"false: it was so already, or has ended."`
	Operation operate.OperationView `json:"operation"`
}

func (s *service) addOperations() {
	add(s, get("/operations", "list-operations", "Operations, the newest first"), s.listOperations)
	add(s, get("/operations/{id}", "get-operation", "One operation"), s.operation)
	add(s, operation{role: operate.RoleOperate, method: http.MethodPost, path: "/operations", id: "create-operation", summary: "Redrive, skip or purge many messages, or move many routes; purge and seek need the role admin"}, s.order)
	add(s, act("stop-operation", "/operations/{id}/stop"), s.switchOperation((*operate.Operator).StopOperation, false))
	add(s, act("resume-operation", "/operations/{id}/resume"), s.switchOperation((*operate.Operator).ResumeOperation, true))
}

func (s *service) listOperations(ctx context.Context, in *operationsIn) (*list[operate.OperationView], error) {
	if err := checkText("after", in.After); err != nil {
		return nil, err
	}
	out := &list[operate.OperationView]{}
	out.Body.Items = []operate.OperationView{}
	return out, s.console.Use(ctx, func(op *operate.Operator) error {
		found, err := op.Operations(ctx, adapters.OperationFilter{Active: in.Active, Before: in.After, Limit: in.Limit + 1})
		for i := range found[:min(len(found), in.Limit)] {
			out.Body.Items = append(out.Body.Items, operate.ViewOperation(&found[i]))
		}
		if len(found) > in.Limit {
			out.Body.Next = found[in.Limit-1].ID
		}
		return err
	})
}

func (s *service) operation(ctx context.Context, in *OperationIn) (*one[operate.OperationView], error) {
	if err := checkText("id", in.ID); err != nil {
		return nil, err
	}
	out := &one[operate.OperationView]{}
	return out, s.console.Use(ctx, func(op *operate.Operator) error {
		o, err := op.Operation(ctx, in.ID)
		if err == nil {
			out.Body = operate.ViewOperation(&o)
		}
		return err
	})
}

// may refuses callers that may not order a kind of operation.
func may(ctx context.Context, kind adapters.OperationKind) error {
	if who, need := operate.CallerOf(ctx), action.RoleFor(kind); who.Role < need {
		return server.Failed(http.StatusForbidden, "a %s needs the role %s, and the caller has %s", kind, need, who.Role)
	}
	return nil
}

func (s *service) order(ctx context.Context, in *operationOrderIn) (*one[OperationsOrdered], error) {
	order, err := in.Body.order(author(ctx, in.Body.Author))
	if err == nil {
		err = may(ctx, order.Kind)
	}
	if err != nil {
		return nil, err
	}
	out := &one[OperationsOrdered]{OperationsOrdered{DryRun: in.Body.DryRun, Matching: []CountView{}, Operations: []operate.OperationView{}}}
	return out, s.console.Use(ctx, func(op *operate.Operator) error {
		if order.Filter.Route != "" {
			if err := op.Known(ctx, order.Filter.Route); err != nil {
				return err
			}
		}
		plan, err := op.PlanOperation(ctx, order)
		if err != nil {
			return err
		}
		out.Body.Total, out.Body.Routes = plan.Total, append([]string{}, plan.Routes...)
		for _, n := range plan.Matching {
			out.Body.Matching = append(out.Body.Matching, CountView{n.Route, string(n.Status), n.Count})
		}
		if in.Body.DryRun {
			return nil
		}
		started, err := op.StartOperation(ctx, plan)
		for i := range started {
			out.Body.Operations = append(out.Body.Operations, operate.ViewOperation(&started[i]))
		}
		return err
	})
}

// order checks an order, by the rules of the command line.
func (o *OperationOrder) order(by string) (operate.OperationOrder, error) {
	order := operate.OperationOrder{Kind: adapters.OperationKind(o.Kind), Rate: float64(o.Rate), By: by}
	if order.Kind != adapters.OperationSeek {
		if len(o.Routes) > 0 || o.To != "" {
			return order, invalid("routes and to are of a seek; a %s takes a route", o.Kind)
		}
		of := ParkedOrder{Author: o.Author, ParkedQuery: o.ParkedQuery, Status: o.Status, All: o.All}
		c, err := of.command(adapters.ParkedAction(o.Kind), by)
		order.Filter, order.All = c.Filter, c.All
		order.Filter.Limit = o.Limit
		return order, err
	}
	if o.ParkedQuery != (ParkedQuery{}) || o.Status != "" || o.All || o.Limit != 0 {
		return order, invalid("a seek takes routes and to, and nothing that selects messages")
	}
	if len(o.Routes) == 0 {
		return order, invalid("say which routes; * means all")
	}
	if err := checkText("by", o.By, "to", o.To); err != nil {
		return order, err
	}
	for _, r := range o.Routes {
		if err := checkText("routes", r); err != nil {
			return order, err
		}
	}
	to, err := operate.ParseTarget(o.To, time.Now())
	if err != nil {
		return order, invalid("to: %v", err)
	}
	order.Routes, order.To = o.Routes, to
	return order, nil
}

// switchOperation stops or resumes an operation. If ordered, the caller needs the role for such an order.
func (s *service) switchOperation(do func(op *operate.Operator, ctx context.Context, id, by string) (bool, error), ordered bool,
) func(context.Context, *operationChangeIn) (*one[OperationChanged], error) {
	return func(ctx context.Context, in *operationChangeIn) (*one[OperationChanged], error) {
		if err := checkText("id", in.ID, "by", in.Body.By); err != nil {
			return nil, err
		}
		out := &one[OperationChanged]{}
		return out, s.console.Use(ctx, func(op *operate.Operator) error {
			o, err := op.Operation(ctx, in.ID)
			if err == nil && ordered {
				err = may(ctx, o.Kind)
			}
			if err == nil {
				out.Body.Changed, err = do(op, ctx, in.ID, author(ctx, in.Body))
			}
			if err != nil {
				return err
			}
			if o, err = op.Operation(ctx, in.ID); err == nil {
				out.Body.Operation = operate.ViewOperation(&o)
			}
			return err
		})
	}
}
