package relay

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/internal/assembly"
)

// nameRoutes logs which routes a reload adds and removes, with where a new one
// begins and how much it will send: a renamed route is a new one, and starts again.
func nameRoutes(ctx context.Context, before *config.Config, next *work) {
	log := next.Options.Logger
	names := func(cfg *config.Config) (out []string) {
		for _, route := range cfg.Routes {
			out = append(out, route.Name)
		}
		return out
	}
	old, fresh := names(before), names(next.Config)
	var gone []config.Route
	for _, former := range before.Routes {
		if !slices.Contains(fresh, former.Name) {
			gone = append(gone, former)
			log.Warn("reloading: a route is no longer configured; its cursors and its parked messages stay until `outrider route forget` deletes them",
				"route", former.Name)
		}
	}
	for i, added := range next.Config.Routes {
		if slices.Contains(old, added.Name) {
			continue
		}
		args := []any{"route", added.Name, "source", added.From, "destination", added.To}
		args = append(args, whereItBegins(ctx, next.parts.Feeds[added.From].Source, next.parts.Routes[i].State, added)...)
		if j := slices.IndexFunc(gone, func(g config.Route) bool { return g.From == added.From && g.To == added.To }); j >= 0 {
			args = append(args, "hint", fmt.Sprintf("if it is the renamed route %s: it does not continue from that route's cursor", gone[j].Name))
		}
		log.Warn("reloading: a route is new", args...)
	}
}

// nameRoutesLimit bounds the queries to each source for the log.
const nameRoutesLimit = 5 * time.Second

// nameRoutesMost is where counting the rows before a new route stops.
const nameRoutesMost = 10_000

// whereItBegins is what is known of a new route's first read, for the log. Facts that the
// source or the state store does not know are left out.
func whereItBegins(ctx context.Context, src adapters.OperatorSource, store adapters.StateStore, r config.Route) []any {
	ctx, cancel := context.WithTimeout(ctx, nameRoutesLimit)
	defer cancel()
	if src == nil {
		return nil // a queue or a subscriber: it sends what is there
	}
	if lanes, err := store.Lanes(ctx); err == nil {
		if slices.ContainsFunc(lanes, func(l adapters.LaneStatus) bool { return l.Route == r.Name && !l.UpdatedAt.IsZero() }) {
			return []any{"begins", "where a route of this name stopped"}
		}
	}
	at := assembly.Start(r.Start)
	begins := string(at.Kind)
	if at.Kind == adapters.StartTime {
		begins = at.Time.UTC().Format(time.RFC3339)
	}
	args := []any{"begins", begins}
	from, err := src.Start(ctx, at)
	if err != nil {
		return args
	}
	var spans []adapters.Span
	for slot := range adapters.Slots {
		spans = append(spans, adapters.Span{Slot: slot, After: from.Position})
	}
	if n, err := src.Backlog(ctx, spans, nameRoutesMost); err == nil {
		rows := strconv.Itoa(n.Rows)
		if n.More {
			rows = "more than " + rows
		}
		args = append(args, "rows", rows, "which", "those that it matches are sent")
	}
	return args
}
