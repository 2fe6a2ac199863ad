package api

import (
	"context"

	"github.com/outriderhq/outrider/admin/action"
	"github.com/outriderhq/outrider/admin/operate"
)

// RebaseOrder repositions the cursors of a route.
type RebaseOrder struct {
	Author
	Force  bool `json:"force,omitempty" doc:"Also if the cursor is valid in this database."`
	Adopt  bool `json:"adopt,omitempty" doc:"The table was renamed or moved: continue from the cursor that is stored under its former name."`
	DryRun bool `json:"dry_run,omitempty" doc:"Only report the effect."`
}

type rebaseIn struct {
	RouteIn
	Body RebaseOrder
}

func (s *service) rebase(ctx context.Context, in *rebaseIn) (*one[MoveResult], error) {
	if err := checkText("by", in.Body.By); err != nil {
		return nil, err
	}
	if in.Body.Force && in.Body.Adopt {
		return nil, invalid("force and adopt exclude each other")
	}
	out := &one[MoveResult]{}
	return out, s.console.Use(ctx, func(op *operate.Operator) error {
		limited, cancel := context.WithTimeout(ctx, action.RequestTime)
		defer cancel()
		plan, err := op.Rebasing(limited, in.Route, in.Body.Force, in.Body.Adopt)
		if err != nil {
			return err
		}
		out.Body, err = relocate(ctx, op, plan, in.Body.DryRun, in.Body.Author)
		return err
	})
}

// ForgetOrder deletes what is kept for a route.
type ForgetOrder struct {
	Author
	Force  bool `json:"force,omitempty" doc:"Also if the route is configured or an instance runs it; it then starts again as its start says."`
	DryRun bool `json:"dry_run,omitempty" doc:"Only count."`
}

type forgetIn struct {
	RouteIn
	Body ForgetOrder
}

// ForgetResult counts the state of a route, which is deleted if it was applied.
type ForgetResult struct {
	Route   string `json:"route"`
	Lanes   int    `json:"lanes" doc:"Cursors."`
	Parked  int    `json:"parked" doc:"Parked messages, also dead ones."`
	Pauses  int    `json:"pauses"`
	Applied bool   `json:"applied"`
}

func (s *service) forget(ctx context.Context, in *forgetIn) (*one[ForgetResult], error) {
	if err := checkText("by", in.Body.By); err != nil {
		return nil, err
	}
	out := &one[ForgetResult]{ForgetResult{Route: in.Route}}
	return out, s.console.Use(ctx, func(op *operate.Operator) error {
		if err := op.CheckForget(ctx, in.Route, in.Body.Force); err != nil {
			return err
		}
		if in.Body.DryRun {
			kept, err := op.Kept(ctx, in.Route)
			out.Body.Lanes, out.Body.Parked, out.Body.Pauses = kept.Lanes, kept.Parked, kept.Pauses
			return err
		}
		gone, err := op.Forget(ctx, in.Route, in.Body.Force, author(ctx, in.Body.Author))
		out.Body.Lanes, out.Body.Parked, out.Body.Pauses, out.Body.Applied = gone.Lanes, gone.Parked, gone.Pauses, err == nil
		return err
	})
}
