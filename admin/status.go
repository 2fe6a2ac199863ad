package admin

import (
	"context"
	"slices"
	"time"

	"github.com/outriderhq/outrider/adapters"
)

// Status is the state of each route that wants takes (nil: of all), worst first, and of
// the instances. running is what the relay's own process knows, by route, as
// [Operator.RunningRoutes] asks for it.
func (op *Operator) Status(ctx context.Context, running map[string]Route, wants func(route string) bool) ([]RouteStatus, []Member, error) {
	rows, members, err := op.status(ctx, &looks{}, running, wants)
	if err == nil {
		op.lookForTransactions(ctx, map[string]openTransactions{}, rows)
	}
	return rows, members, err
}

// status is [Operator.Status] with what was found out before.
func (op *Operator) status(ctx context.Context, l *looks, running map[string]Route, wants func(route string) bool) ([]RouteStatus, []Member, error) {
	lanes, err := op.cursors(ctx, nil)
	if err != nil {
		return nil, nil, err
	}
	if err := op.countLanes(ctx, l, lanes); err != nil {
		return nil, nil, err
	}
	instances, err := op.Instances(ctx)
	if err != nil {
		return nil, nil, err
	}
	l.lanes = lanes
	members := MembersOf(instances, lanes)
	rows := slices.DeleteFunc(summarise(op.build.Config, lanes), func(p RouteStatus) bool { return wants != nil && !wants(p.Route) })
	if err := op.addDetails(ctx, l, running, rows, lanes); err != nil {
		return nil, nil, err
	}
	addIdle(rows, instances)
	judge(rows, members)
	failing, err := l.failing.get(func() (map[string]*Failing, error) { return op.failing(ctx, rows) })
	for i := range rows {
		rows[i].Failing = failing[rows[i].Route]
	}
	return rows, members, err
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
