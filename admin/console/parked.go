package console

import (
	"context"
	"slices"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/operate"
)

// parkedDirectly is up to how many parked messages those with a status are looked for in all of them.
const parkedDirectly = 10_000

// ParkedAfter is [operate.Operator.ParkedAfter], but among many messages those with a status are looked for only in the routes that have
// some, by the counts of the latest [Console.Status]: no index finds a rare status among messages of all routes.
func (c *Console) ParkedAfter(ctx context.Context, f adapters.ParkedFilter, after operate.PageToken) (out []operate.ParkedMessage, err error) {
	routes, narrowed := c.routesWith(ctx, f)
	err = c.Search(ctx, func(ctx context.Context, op *operate.Operator) error {
		if !narrowed {
			out, err = op.ParkedAfter(ctx, f, after)
			return err
		}
		for _, name := range routes {
			if name < after.Parked.Route || len(out) >= f.Limit {
				continue
			}
			of, place := f, operate.PageToken{}
			of.Route, of.Limit = name, f.Limit-len(out)
			if name == after.Parked.Route {
				place = after
			}
			found, err := op.ParkedAfter(ctx, of, place)
			if err != nil {
				return err
			}
			out = append(out, found...)
		}
		return nil
	})
	return out, err
}

// routesWith are the routes that have messages with the status of a filter, if they are to be looked for one by one.
func (c *Console) routesWith(ctx context.Context, f adapters.ParkedFilter) (routes []string, narrowed bool) {
	if f.Route != "" || f.ID != "" || f.Failure != 0 || f.Limit == 0 || f.Status == "" || f.Status == adapters.ParkedDead {
		return nil, false
	}
	snap, total := c.Status(ctx), 0
	for i := range snap.Routes {
		r := &snap.Routes[i]
		n := map[adapters.ParkedStatus]int{adapters.ParkedHeld: r.Held, adapters.ParkedRetrying: r.Retrying, adapters.ParkedWaiting: r.Waiting}[f.Status]
		if total += r.Held + r.Retrying + r.Waiting; n > 0 {
			routes = append(routes, r.Route)
		}
	}
	slices.Sort(routes)
	return routes, snap.Problem == nil && total > parkedDirectly
}
