package api

import (
	"context"
	"net/http"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/operate"
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

// OperationsOrdered is what an order is about, and the operations that it became.
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
	post := func(path, id, summary string) operation {
		return operation{role: operate.RoleOperate, method: http.MethodPost, path: path, id: id, summary: summary}
	}
	add(s, get("/operations", "list-operations", "Operations, the newest first"), s.listOperations)
	add(s, get("/operations/{id}", "get-operation", "One operation"), s.operation)
	add(s, post("/operations", "create-operation", "Redrive, skip or purge many messages, or move many routes; purge and seek need the role admin"), s.order)
	add(s, post("/operations/{id}/stop", "stop-operation", "Stop an operation after its current step"), s.stopOperation)
	add(s, post("/operations/{id}/resume", "resume-operation", "Resume a stopped or failed operation; a purge or seek needs the role admin"), s.resumeOperation)
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

// roleFor is what a caller needs to order a kind of operation.
func roleFor(kind adapters.OperationKind) operate.Role {
	if kind == adapters.OperationPurge || kind == adapters.OperationSeek {
		return operate.RoleAdmin
	}
	return operate.RoleOperate
}

// may refuses callers that may not order a kind of operation.
func may(ctx context.Context, kind adapters.OperationKind) error {
	if who := operate.CallerOf(ctx); who.Role < roleFor(kind) {
		return failed(http.StatusForbidden, "a %s needs the role %s, and the caller has %s", kind, roleFor(kind), who.Role)
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
			if err := known(ctx, op, order.Filter.Route); err != nil {
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
	to, err := operate.ParsePlace(o.To, time.Now())
	if err != nil {
		return order, invalid("to: %v", err)
	}
	order.Routes, order.To = o.Routes, to
	return order, nil
}

func (s *service) stopOperation(ctx context.Context, in *operationChangeIn) (*one[OperationChanged], error) {
	return s.switchOperation(ctx, in, func(op *operate.Operator, _ adapters.OperationKind) (bool, error) {
		return op.StopOperation(ctx, in.ID, author(ctx, in.Body))
	})
}

func (s *service) resumeOperation(ctx context.Context, in *operationChangeIn) (*one[OperationChanged], error) {
	return s.switchOperation(ctx, in, func(op *operate.Operator, kind adapters.OperationKind) (bool, error) {
		if err := may(ctx, kind); err != nil {
			return false, err
		}
		return op.ResumeOperation(ctx, in.ID, author(ctx, in.Body))
	})
}

func (s *service) switchOperation(ctx context.Context, in *operationChangeIn,
	f func(*operate.Operator, adapters.OperationKind) (bool, error),
) (*one[OperationChanged], error) {
	if err := checkText("id", in.ID, "by", in.Body.By); err != nil {
		return nil, err
	}
	out := &one[OperationChanged]{}
	return out, s.console.Use(ctx, func(op *operate.Operator) error {
		o, err := op.Operation(ctx, in.ID)
		if err != nil {
			return err
		}
		if out.Body.Changed, err = f(op, o.Kind); err != nil {
			return err
		}
		if o, err = op.Operation(ctx, in.ID); err == nil {
			out.Body.Operation = operate.ViewOperation(&o)
		}
		return err
	})
}
