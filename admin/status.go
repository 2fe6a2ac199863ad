package admin

import (
	"context"
	"slices"
	"time"

	"github.com/outriderhq/outrider/adapters"
)

// Status is the state of each route that wants takes (nil: of all), worst first, and of
// the instances. running is what the relay's own process knows, by route, as
// [RunningRoutes] asks for it.
func (op *Operator) Status(ctx context.Context, running map[string]Route, wants func(route string) bool) ([]RouteStatus, []Member, error) {
	lanes, err := op.Lanes(ctx)
	if err != nil {
		return nil, nil, err
	}
	instances, err := op.Instances(ctx)
	if err != nil {
		return nil, nil, err
	}
	members := MembersOf(instances, lanes)
	rows := slices.DeleteFunc(summarise(op.build.Config, lanes), func(p RouteStatus) bool { return wants != nil && !wants(p.Route) })
	if err := op.addDetails(ctx, running, rows, lanes); err != nil {
		return nil, nil, err
	}
	judge(rows, members)
	return rows, members, op.addFailures(ctx, rows)
}

// Failing is the parked message of a route that most deserves a look.
type Failing struct {
	ID       string                `json:"id"`
	Group    string                `json:"group,omitempty"`
	Status   adapters.ParkedStatus `json:"status"`
	Attempts int                   `json:"attempts"`
	Since    time.Time             `json:"since"`
	Next     *time.Time            `json:"next_attempt_at,omitempty"`
	Error    string                `json:"error"`
}
