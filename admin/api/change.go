package api

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/outriderhq/outrider/adapters"
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

// PauseResult is what a pause or its end did.
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

// ParkedResult is what a change of parked messages did, or would do.
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

// MoveResult is what a seek or a rebase did, or would do.
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
	post := func(role operate.Role, path, id, summary string) operation {
		return operation{role: role, method: http.MethodPost, path: path, id: id, summary: summary}
	}
	add(s, post(operate.RoleOperate, "/routes/{route}/pause", "pause", "Pause a route, or an address or a group of it"), s.pause)
	add(s, post(operate.RoleOperate, "/routes/{route}/resume", "resume", "Resume a route, or an address or a group of it"), s.resume)
	add(s, post(operate.RoleAdmin, "/routes/{route}/seek", "seek", "Move a route to another place in its table"), s.seek)
	add(s, post(operate.RoleAdmin, "/routes/{route}/rebase", "rebase", "Reposition a route's cursor after its database was restored, or its table renamed"), s.rebase)
	add(s, post(operate.RoleAdmin, "/routes/{route}/forget", "forget", "Delete the cursors, parked messages and pauses of a route that is gone"), s.forget)
	add(s, post(operate.RoleOperate, "/parked/redrive", "redrive", "Deliver dead, held or retrying messages again, now"), s.change(adapters.ParkedRedrive))
	add(s, post(operate.RoleOperate, "/parked/skip", "skip", "Delete messages that hold their group back"), s.change(adapters.ParkedSkip))
	add(s, post(operate.RoleAdmin, "/parked/purge", "purge", "Delete dead messages"), s.change(adapters.ParkedPurge))
	reload := post(operate.RoleAdmin, "/reload", "reload", "Read the configuration file again and put it to work")
	reload.before = func(w http.ResponseWriter) { // it waits for deliveries in flight, longer than others may take
		patience := s.console.Config().DrainTimeout.Std() + time.Minute
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(patience)) // a mounted handler may have none
	}
	add(s, reload, s.reload)
}

func author(ctx context.Context, a Author) string { return operate.CallerOf(ctx).Author(a.By) }

func (s *service) pause(ctx context.Context, in *pauseIn) (*one[PauseResult], error) {
	return s.pausing(ctx, in, func(op *operate.Operator) (bool, error) {
		return op.Pause(ctx, adapters.Pause{Route: in.Route, Address: in.Body.Address, Group: in.Body.Group, Reason: in.Body.Reason, By: author(ctx, in.Body.Author)})
	})
}

func (s *service) resume(ctx context.Context, in *pauseIn) (*one[PauseResult], error) {
	return s.pausing(ctx, in, func(op *operate.Operator) (bool, error) {
		if in.Body.Group != "" {
			return op.ResumeGroup(ctx, in.Route, in.Body.Group, author(ctx, in.Body.Author))
		}
		return op.Resume(ctx, in.Route, in.Body.Address, author(ctx, in.Body.Author))
	})
}

func (s *service) pausing(ctx context.Context, in *pauseIn, f func(*operate.Operator) (bool, error)) (*one[PauseResult], error) {
	if err := checkText("address", in.Body.Address, "group", in.Body.Group, "reason", in.Body.Reason, "by", in.Body.By); err != nil {
		return nil, err
	}
	if in.Body.Address != "" && in.Body.Group != "" {
		return nil, invalid("give an address or a group, not both")
	}
	out := &one[PauseResult]{PauseResult{Route: in.Route, Address: operate.ShownAddress(in.Body.Address), Group: in.Body.Group}}
	return out, s.console.Use(ctx, func(op *operate.Operator) (err error) {
		if err := known(ctx, op, in.Route); err != nil {
			return err
		}
		if out.Body.Changed, err = f(op); err != nil {
			return err
		}
		out.Body.AtRest, err = op.AtRest(ctx, in.Route)
		return err
	})
}

func (s *service) seek(ctx context.Context, in *seekIn) (*one[MoveResult], error) {
	if err := checkText("by", in.Body.By, "to", in.Body.To); err != nil {
		return nil, err
	}
	to, err := operate.ParsePlace(in.Body.To, time.Now())
	if err != nil {
		return nil, invalid("to: %v", err)
	}
	out := &one[MoveResult]{}
	return out, s.console.Use(ctx, func(op *operate.Operator) error {
		if err := known(ctx, op, in.Route); err != nil {
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

// requestTime is how long a request may change messages; the server's own
// limit for an answer is longer.
const requestTime = 20 * time.Second

func (s *service) change(action adapters.ParkedAction) func(context.Context, *parkedOrderIn) (*one[ParkedResult], error) {
	return func(ctx context.Context, in *parkedOrderIn) (*one[ParkedResult], error) {
		c, err := in.Body.command(action, author(ctx, in.Body.Author))
		if err != nil {
			return nil, err
		}
		out := &one[ParkedResult]{ParkedResult{DryRun: in.Body.DryRun, Matching: []CountView{}}}
		return out, s.console.Use(ctx, func(op *operate.Operator) error {
			if c.Filter.Route != "" {
				if err := known(ctx, op, c.Filter.Route); err != nil {
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
			limited, cancel := context.WithTimeout(ctx, requestTime)
			defer cancel()
			c.Filter.Limit = cmp.Or(in.Body.Limit, 10_000)
			out.Body.Changed, err = op.ChangeParked(limited, c, operate.Pace{})
			out.Body.More = out.Body.Changed < out.Body.Total
			if limited.Err() != nil && out.Body.Changed > 0 {
				return nil // what is left is for the next request
			}
			return err
		})
	}
}

// command checks an order, by the rules of the command line.
func (o *ParkedOrder) command(action adapters.ParkedAction, by string) (adapters.ParkedCommand, error) {
	f, err := o.filter(o.Status)
	if err == nil {
		err = checkText("by", o.By)
	}
	c := adapters.ParkedCommand{Action: action, Filter: f, All: o.All, By: by}
	switch {
	case err != nil:
	case !f.IsZero() && o.All:
		err = invalid("all goes with no filter")
	case f.IsZero() && !o.All:
		err = invalid("say which messages: by id, route, group, type, status, error or before, or all")
	case f.Status != "" && len(action.Statuses(f)) == 0:
		err = invalid("%s changes no messages with the status %s", action, f.Status)
	}
	return c, err
}

func (s *service) reload(ctx context.Context, _ *struct{}) (*reloadOut, error) {
	if err := s.console.Reload(ctx, author(ctx, Author{})); err != nil {
		if status := server.StatusOf(err); status != http.StatusInternalServerError {
			return nil, err
		}
		return nil, failed(http.StatusConflict, "%v", err)
	}
	out := &reloadOut{}
	out.Body.Reloaded, out.Body.Routes, out.Body.Pending = true, len(s.console.Config().Routes), append([]string{}, s.console.Pending()...)
	return out, nil
}
