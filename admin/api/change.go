package api

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/action"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/admin/server"
)

// Author is recorded in the audit log for a change.
type Author struct {
	By string `json:"by,omitempty" maxLength:"200" doc:"Name for the audit log; the token is recorded beside it."`
}

// PauseOrder pauses or resumes.
type PauseOrder struct {
	Author
	Address string `json:"address,omitempty" maxLength:"4000" doc:"Only this address of the route. To resume it may be given as it is shown."`
	Group   string `json:"group,omitempty" maxLength:"2000" doc:"Only this group of the route."`
	Reason  string `json:"reason,omitempty" maxLength:"2000" doc:"Why; shown with the pause."`
}

type pauseIn struct {
	RouteIn
	Body PauseOrder
}

// PauseResult is the result of a pause or its end.
type PauseResult struct {
	Route   string `json:"route"`
	Address string `json:"address,omitempty"`
	Group   string `json:"group,omitempty"`
	Changed bool   `json:"changed" doc:"false: it was so already."`
	AtRest  bool   `json:"at_rest" doc:"No instance runs the route: nothing is in flight. Instances notice a pause within two seconds, or a quarter of the lease if that is less."`
}

// ParkedOrder changes parked messages.
type ParkedOrder struct {
	Author
	ParkedQuery
	Status string `json:"status,omitempty" enum:"retrying,waiting,held,dead"`
	All    bool   `json:"all,omitempty" doc:"Every message that the action can change; required without another filter."`
	DryRun bool   `json:"dry_run,omitempty" doc:"Only count."`
	Limit  int    `json:"limit,omitempty" minimum:"1" maximum:"100000" default:"10000" doc:"Most messages that one request changes."`
}

type parkedOrderIn struct{ Body ParkedOrder }

// ParkedResult counts the messages that were changed, or would be.
type ParkedResult struct {
	DryRun   bool        `json:"dry_run"`
	Matching []CountView `json:"matching" nullable:"false" doc:"Messages that could be changed, counted before the change."`
	Total    int         `json:"total" doc:"Sum of them."`
	Changed  int         `json:"changed"`
	More     bool        `json:"more" doc:"Not all were changed: the limit, or the time of a request, was reached. Send it again."`
}

// CountView is how many messages of a route have a status.
type CountView struct {
	Route    string `json:"route"`
	Status   string `json:"status"`
	Messages int    `json:"messages"`
}

// SeekOrder moves the cursors of a route.
type SeekOrder struct {
	Author
	To     string `json:"to" minLength:"1" maxLength:"100" doc:"beginning, end, offsets (of watermill-sql), a time such as 2026-01-31T08:00:00Z, a span before now such as 90m, or a position."`
	DryRun bool   `json:"dry_run,omitempty" doc:"Only report the effect."`
}

type seekIn struct {
	RouteIn
	Body SeekOrder
}

// MoveResult is the result of a seek or a rebase, or its plan.
type MoveResult struct {
	Route       string   `json:"route"`
	To          string   `json:"to"`
	Again       int      `json:"again" doc:"Rows that are settled and will be delivered again."`
	Skipped     int      `json:"skipped" doc:"Rows that will not be delivered."`
	SkippedLate int      `json:"skipped_late" doc:"Those of the skipped ones that were committed late."`
	AtLeast     bool     `json:"at_least" doc:"Counting stopped: there are more."`
	Counted     bool     `json:"counted" doc:"false: the source cannot count; the numbers are 0."`
	Owners      []string `json:"running_on" nullable:"false" doc:"Instances that run the route, and continue at the new position."`
	Applied     bool     `json:"applied"`
}

type reloadOut struct {
	Body struct {
		Reloaded bool     `json:"reloaded"`
		Routes   int      `json:"routes" doc:"Routes of the active configuration."`
		Pending  []string `json:"needs_restart" nullable:"false" doc:"Sections of the file that have changed and take effect at the next start of the process: admin, log."`
	}
}

func (s *service) addChanges() {
	add(s, act("pause", "/routes/{route}/pause"), s.pausing((*operate.Operator).Pause))
	add(s, act("resume", "/routes/{route}/resume"), s.pausing((*operate.Operator).Resume))
	add(s, act("seek", "/routes/{route}/seek"), s.seek)
	add(s, act("rebase", "/routes/{route}/rebase"), s.rebase)
	add(s, act("forget", "/routes/{route}/forget"), s.forget)
	add(s, act("redrive", "/parked/redrive"), s.change(adapters.ParkedRedrive))
	add(s, act("skip", "/parked/skip"), s.change(adapters.ParkedSkip))
	add(s, act("purge", "/parked/purge"), s.change(adapters.ParkedPurge))
	reload := act("reload", "/reload")
	reload.before = func(w http.ResponseWriter) { // it waits for deliveries in flight, longer than others may take
		patience := s.console.Config().DrainTimeout.Std() + time.Minute
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(patience)) // a mounted handler may have none
	}
	add(s, reload, s.reload)
}

func author(ctx context.Context, a Author) string { return operate.CallerOf(ctx).Author(a.By) }

// pausing pauses or resumes.
func (s *service) pausing(do func(*operate.Operator, context.Context, adapters.Pause) (bool, error)) func(context.Context, *pauseIn) (*one[PauseResult], error) {
	return func(ctx context.Context, in *pauseIn) (*one[PauseResult], error) {
		o := &in.Body
		if err := checkText("address", o.Address, "group", o.Group, "reason", o.Reason, "by", o.By); err != nil {
			return nil, err
		}
		if o.Address != "" && o.Group != "" {
			return nil, invalid("give an address or a group, not both")
		}
		out := &one[PauseResult]{PauseResult{Route: in.Route, Address: operate.ShownAddress(o.Address), Group: o.Group}}
		return out, s.console.Use(ctx, func(op *operate.Operator) (err error) {
			if err := op.Known(ctx, in.Route); err != nil {
				return err
			}
			p := adapters.Pause{Route: in.Route, Address: o.Address, Group: o.Group, Reason: o.Reason, By: author(ctx, o.Author)}
			if out.Body.Changed, err = do(op, ctx, p); err != nil {
				return err
			}
			out.Body.AtRest, err = op.AtRest(ctx, in.Route)
			return err
		})
	}
}

func (s *service) seek(ctx context.Context, in *seekIn) (*one[MoveResult], error) {
	if err := checkText("by", in.Body.By, "to", in.Body.To); err != nil {
		return nil, err
	}
	to, err := operate.ParseTarget(in.Body.To, time.Now())
	if err != nil {
		return nil, invalid("to: %v", err)
	}
	out := &one[MoveResult]{}
	return out, s.console.Use(ctx, func(op *operate.Operator) error {
		if err := op.Known(ctx, in.Route); err != nil {
			return err
		}
		plan, err := op.PlanSeek(ctx, in.Route, to)
		if err != nil {
			return err
		}
		out.Body, err = relocate(ctx, op, plan, in.Body.DryRun, in.Body.Author)
		return err
	})
}

// relocate carries a plan out, unless it is only to be shown.
func relocate(ctx context.Context, op *operate.Operator, plan *operate.Relocation, dryRun bool, by Author) (MoveResult, error) {
	r := MoveResult{Route: plan.Route, To: plan.To, Again: plan.Again.Rows, Skipped: plan.Skipped.Rows, SkippedLate: plan.Late.Rows,
		AtLeast: plan.Again.More || plan.Skipped.More, Counted: plan.Counted, Owners: append([]string{}, plan.Owners...)}
	if dryRun {
		return r, nil
	}
	err := op.Relocate(ctx, plan, author(ctx, by))
	r.Applied = err == nil
	return r, err
}

func (s *service) change(of adapters.ParkedAction) func(context.Context, *parkedOrderIn) (*one[ParkedResult], error) {
	return func(ctx context.Context, in *parkedOrderIn) (*one[ParkedResult], error) {
		c, err := in.Body.command(of, author(ctx, in.Body.Author))
		if err != nil {
			return nil, err
		}
		out := &one[ParkedResult]{ParkedResult{DryRun: in.Body.DryRun, Matching: []CountView{}}}
		return out, s.console.Use(ctx, func(op *operate.Operator) error {
			if c.Filter.Route != "" {
				if err := op.Known(ctx, c.Filter.Route); err != nil {
					return err
				}
			}
			counts, err := op.CountParked(ctx, c)
			if err != nil {
				return err
			}
			for _, n := range counts {
				out.Body.Matching = append(out.Body.Matching, CountView{n.Route, string(n.Status), n.Count})
				out.Body.Total += n.Count
			}
			if in.Body.DryRun || out.Body.Total == 0 {
				return nil
			}
			limited, cancel := context.WithTimeout(ctx, action.RequestTime)
			defer cancel()
			c.Filter.Limit = cmp.Or(in.Body.Limit, 10_000)
			out.Body.Changed, err = op.ChangeParked(limited, c, operate.RateLimit{})
			out.Body.More = out.Body.Changed < out.Body.Total
			if limited.Err() != nil && out.Body.Changed > 0 {
				return nil // what is left is for the next request
			}
			return err
		})
	}
}

// command checks an order, by the rules of the command line.
func (o *ParkedOrder) command(of adapters.ParkedAction, by string) (adapters.ParkedCommand, error) {
	f, err := o.filter(o.Status)
	if err == nil {
		err = checkText("by", o.By)
	}
	c := adapters.ParkedCommand{Action: of, Filter: f, All: o.All, By: by}
	switch {
	case err != nil:
	case !f.IsZero() && o.All:
		err = invalid("all goes with no filter")
	case f.IsZero() && !o.All:
		err = invalid("say which messages: by id, route, group, type, status, error or before, or all")
	case f.Status != "" && len(of.Statuses(f)) == 0:
		err = invalid("%s changes no messages with the status %s", of, f.Status)
	}
	return c, err
}

func (s *service) reload(ctx context.Context, _ *struct{}) (*reloadOut, error) {
	if err := s.console.Reload(ctx, author(ctx, Author{})); err != nil {
		if status := server.StatusOf(err); status != http.StatusInternalServerError {
			return nil, err
		}
		return nil, server.Failed(http.StatusConflict, "%v", err)
	}
	out := &reloadOut{}
	out.Body.Reloaded, out.Body.Routes, out.Body.Pending = true, len(s.console.Config().Routes), append([]string{}, s.console.Pending()...)
	return out, nil
}
