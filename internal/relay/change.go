package relay

import (
	"context"
	"errors"
	"slices"

	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/internal/assembly"
	"github.com/outriderhq/outrider/router"
)

// change continues with a configuration that differs little from the one in effect. Otherwise it changes nothing and returns false. What differs
// is drained; the sessions, claims and connections of all else stay as they are.
func (g *generation) change(ctx context.Context, cfg *config.Config) (done bool, err error) {
	g.changing.Lock()
	defer g.changing.Unlock()
	now := g.now()
	c, little := cfg.Since(now.Config)
	if !little || !g.changeable(c) {
		return false, nil
	}
	next := &work{now.Successor(cfg), now.parts, now.jobs}
	next.Metrics = now.Metrics
	if len(c.Routes)+len(c.Gone) > 0 {
		if next, err = g.changeRoutes(ctx, cfg, c); err != nil {
			return false, err
		}
	}
	log := now.Options.Logger
	for _, name := range assembly.SortedNames(c.Polls) {
		feed := next.parts.Feeds[name]
		feed.Repoll(g.router, c.Polls[name])
		log.Info("reloading: poll of the source has changed; the new settings apply from the next poll, without a drain or a new connection",
			"source", name, "batch", c.Polls[name].Batch, "min", c.Polls[name].Min.String(), "max", c.Polls[name].Max.String())
	}
	g.work.Store(next)
	if len(c.Routes)+len(c.Gone) > 0 {
		log.Info("reloading: only routes have changed, and only they were drained", "changed", len(c.Routes), "removed", len(c.Gone), "unchanged", len(cfg.Routes)-len(c.Routes))
		if err := now.parts.CloseReplaced(next.parts); err != nil {
			log.Warn("reloading: a destination that is used no more was not closed cleanly", "error", err)
		}
	}
	return true, nil
}

// changeable reports whether all that changes can while the rest runs.
func (g *generation) changeable(c config.Changes) bool {
	parts := g.now().parts
	for name := range c.Polls {
		feed := parts.Feeds[name] // of a source that no route reads: an empty one
		if !feed.Repollable() {
			return false
		}
	}
	for _, source := range c.Sources {
		if feed := parts.Feeds[source]; feed.Source == nil || !g.router.Changeable(feed.Source) {
			return false
		}
	}
	return true
}

// changeRoutes ends the routes that change, begins those that they change to, and returns the work with these.
func (g *generation) changeRoutes(ctx context.Context, cfg *config.Config, c config.Changes) (*work, error) {
	now := g.now()
	b := now.Successor(cfg)
	parts, err := b.Rebuild(ctx, now.Config, now.parts, c.Routes)
	if err != nil {
		return nil, notUsed(err)
	}
	next, err := g.plan(ctx, b, parts)
	if err == nil {
		nameRoutes(ctx, now.Config, next)
		ended := slices.Clone(c.Gone)
		for _, r := range now.Config.Routes {
			if slices.Contains(c.Routes, r.Name) {
				ended = append(ended, r.Name)
			}
		}
		begun := slices.DeleteFunc(slices.Clone(parts.Routes), func(r router.Route) bool { return !slices.Contains(c.Routes, r.Name) })
		g.working.end() // retention that does not know a new route could remove what that begins with
		jobs := now.jobs
		if err = g.router.Change(ended, begun); err == nil {
			jobs = next.jobs
		}
		g.working = g.begin(g.running, jobs)
	}
	if err != nil {
		err = errors.Join(err, parts.CloseReplaced(now.parts))
		if errors.Is(err, router.ErrStopping) {
			return nil, errors.Join(errEnded, err)
		}
		return nil, notUsed(err)
	}
	return next, nil
}
