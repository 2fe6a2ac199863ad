package operate

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/internal/assembly"
)

// Pauses returns what is paused: routes and addresses.
func (op *Operator) Pauses(ctx context.Context) ([]adapters.Pause, error) {
	var out []adapters.Pause
	for _, s := range op.stores {
		pauses, err := s.Pauses(ctx, "")
		if err != nil {
			return nil, err
		}
		out = append(out, pauses...)
	}
	return out, nil
}

// Pause pauses a route or, with an address or a group, that of it. The instance
// that works it notices within a quarter of its lease, finishes what is under
// way, settles and releases the lanes; see [Operator.AtRest]. It returns false
// when the same is paused already.
func (op *Operator) Pause(ctx context.Context, p adapters.Pause) (changed bool, err error) {
	s, err := op.Store(ctx, p.Route)
	if err != nil {
		return false, err
	}
	if err := op.checkGroup(p); err != nil {
		return false, err
	}
	err = op.inTurn(ctx, s, p.Route, false, func() error {
		changed, err = s.Pause(ctx, p)
		return err
	})
	return changed, err
}

// checkGroup refuses to pause a group of a route whose order knows none.
func (op *Operator) checkGroup(p adapters.Pause) error {
	if p.Group != "" && p.Address != "" {
		return errors.New("a pause is of an address or of a group, not of both")
	}
	for _, r := range op.build.Config.Routes {
		if r.Name == p.Route && p.Group != "" && r.Order != "" && r.Order != string(adapters.OrderGroup) {
			return fmt.Errorf("route %q keeps order: %s: %w", p.Route, r.Order, ErrNoGroups)
		}
	}
	return nil
}

// AtRest reports whether no instance works the route.
func (op *Operator) AtRest(ctx context.Context, route string) (bool, error) {
	lanes, err := op.lanesOf(ctx, route)
	return !slices.ContainsFunc(lanes, func(l adapters.LaneStatus) bool { return l.Owner != "" && l.Alive }), err
}

// Forget deletes everything that is kept for a route: cursors, parked messages
// and pauses. A route that the configuration has, or that an instance works, is
// refused unless forced.
func (op *Operator) Forget(ctx context.Context, route string, force bool, by string) (gone adapters.DeletedRoute, err error) {
	if err := op.CheckForget(ctx, route, force); err != nil {
		return gone, err
	}
	s, err := op.Store(ctx, route)
	if err != nil {
		return gone, err
	}
	err = op.inTurn(ctx, s, route, false, func() error {
		gone, err = s.Forget(ctx, route, force, by)
		return err
	})
	if errors.Is(err, adapters.ErrAlive) {
		err = refused("%w: stop it, or force it", err)
	}
	return gone, err
}

// Kept counts the state of a route.
type Kept struct {
	Lanes, Parked, Dead, Pauses int
	Position                    int64 // the highest of its cursors
}

// Kept returns what [Operator.Forget] would delete.
func (op *Operator) Kept(ctx context.Context, route string) (k Kept, err error) {
	s, err := op.Store(ctx, route)
	if err != nil {
		return k, err
	}
	lanes, err := s.Cursors(ctx, []string{route})
	if err != nil {
		return k, err
	}
	k.Lanes = len(lanes)
	for _, l := range lanes {
		k.Position = max(k.Position, l.Cursor.Position)
	}
	of := adapters.ParkedFilter{Route: route}
	failed := adapters.ParkedCommand{Action: adapters.ParkedRedrive, Filter: of}
	waiting := adapters.ParkedCommand{Action: adapters.ParkedSkip, Filter: of}
	waiting.Filter.Status = adapters.ParkedWaiting
	for _, c := range []adapters.ParkedCommand{failed, waiting} {
		counts, err := s.CountParked(ctx, c)
		if err != nil {
			return k, err
		}
		for _, n := range counts {
			k.Parked += n.Count
			if n.Status == adapters.ParkedDead {
				k.Dead += n.Count
			}
		}
	}
	pauses, err := s.Pauses(ctx, route)
	k.Pauses = len(pauses)
	return k, err
}

// CheckForget returns the error that [Operator.Forget] would begin with: nothing is
// known of the route, or it is in the configuration and not forced.
func (op *Operator) CheckForget(ctx context.Context, route string, force bool) error {
	if op.configured(route) && !force {
		return refused("route %q is in the configuration: remove it there and restart the relay, or pass --force: the route then starts again as its `start` says", route)
	}
	_, err := op.Store(ctx, route)
	return err
}

func (op *Operator) configured(route string) bool {
	return slices.ContainsFunc(op.build.Config.Routes, func(r config.Route) bool { return r.Name == route })
}

// Store returns the state store of a route: that of its source or, of a route
// that is no longer configured, the one that remembers it.
func (op *Operator) Store(ctx context.Context, route string) (adapters.OperatorStore, error) {
	for _, r := range op.build.Config.Routes {
		if r.Name != route {
			continue
		}
		k, err := op.build.StateOf(r.From)
		if err != nil {
			return nil, err
		}
		return op.parts.States[k.Key], nil
	}
	for _, s := range op.stores {
		lanes, err := s.Cursors(ctx, []string{route})
		if err != nil {
			return nil, err
		}
		pauses, err := s.Pauses(ctx, route)
		if err != nil {
			return nil, err
		}
		if len(pauses)+len(lanes) > 0 {
			return s, nil
		}
	}
	return nil, &UnknownRoute{Route: route, Known: op.routes()}
}

func (op *Operator) routes() []string {
	var names []string
	for _, r := range op.build.Config.Routes {
		names = append(names, r.Name)
	}
	return names
}

func (op *Operator) lanesOf(ctx context.Context, route string) ([]adapters.LaneStatus, error) {
	s, err := op.Store(ctx, route)
	if err != nil {
		return nil, err
	}
	return s.Cursors(ctx, []string{route})
}

// source opens the source of a configured route, once.
func (op *Operator) source(ctx context.Context, route string) (adapters.OperatorSource, error) {
	f, from, err := op.reading(ctx, route)
	if err != nil {
		return nil, err
	}
	return cursored(f, route, from)
}

// cursored returns the source of a route, if it is read by a cursor.
func cursored(f assembly.Feed, route, from string) (adapters.OperatorSource, error) {
	switch {
	case f.Queue != nil:
		return nil, refused("route %q: its source %q is a queue: progress is kept in the status of each row, so the route has no cursor", route, from)
	case f.Source == nil:
		return nil, refused("route %q: its source %q has no cursor: it remembers itself what was delivered", route, from)
	}
	return f.Source, nil
}

// reading opens the source of a configured route, once, and returns its name.
func (op *Operator) reading(ctx context.Context, route string) (f assembly.Feed, from string, err error) {
	for _, r := range op.build.Config.Routes {
		if r.Name != route {
			continue
		}
		if f, err = op.Open(ctx, r.From); err != nil {
			err = fmt.Errorf("source %q: %w", r.From, err)
		}
		return f, r.From, err
	}
	return f, "", &UnknownRoute{Route: route, Known: op.routes()}
}

// Processing counts the rows marked as being processed in the queue that a route
// reads, by this relay or others, or left so by a crash. Routes of one source
// share it. Counting stops at 10,000 rows of a table. Of a route whose source is
// no queue the result is empty.
func (op *Operator) Processing(ctx context.Context, route string) (adapters.Processing, error) {
	f, from, err := op.reading(ctx, route)
	if err != nil {
		return adapters.Processing{}, err
	}
	if f.Queue == nil {
		return adapters.Processing{}, fmt.Errorf("route %q: its source %q is no queue that can count", route, from)
	}
	return f.Queue.Processing(ctx, lagMost)
}

// lagMost is where counting the rows behind a cursor stops.
const lagMost = 10_000

// Lag counts the rows above the cursors of a route: those that were not settled,
// whether the route matches them or not. Of a queue it counts unfinished rows, which
// its routes share. Counting stops at 10,000. Messages that are parked, and dead
// ones, do not count.
func (op *Operator) Lag(ctx context.Context, route string) (adapters.Backlog, error) {
	lanes, err := op.lanesOf(ctx, route)
	if err != nil {
		return adapters.Backlog{}, err
	}
	return op.LagBehind(ctx, route, lanes)
}

// LagBehind is [Operator.Lag] for those who have the route's lanes already, as
// [Operator.Lanes] returns them: with hundreds of routes the lanes are then read once.
func (op *Operator) LagBehind(ctx context.Context, route string, lanes []adapters.LaneStatus) (adapters.Backlog, error) {
	f, from, err := op.reading(ctx, route)
	if err != nil {
		return adapters.Backlog{}, err
	}
	if f.Queue != nil {
		return f.Queue.Unfinished(ctx, lagMost)
	}
	src, err := cursored(f, route, from)
	if err != nil {
		return adapters.Backlog{}, err
	}
	var spans []adapters.Span
	for _, l := range lanes {
		if !l.UpdatedAt.IsZero() {
			spans = append(spans, adapters.Span{Slot: l.Slot, After: l.Cursor.Position})
		}
	}
	if len(spans) == 0 {
		return adapters.Backlog{}, ErrNeverRan
	}
	return src.Backlog(ctx, spans, lagMost)
}

// ShownAddress is an address with what may be secret in it masked.
func ShownAddress(address string) string { return assembly.RedactURL(address) }

// Resume ends a pause of a route, or of an address or a group of it. An address may be given as [Operator.Pauses] returns it
// or with its secrets masked, as it is shown. It returns false when there was none.
func (op *Operator) Resume(ctx context.Context, p adapters.Pause) (changed bool, err error) {
	s, err := op.Store(ctx, p.Route)
	if err != nil {
		return false, err
	}
	if p.Group != "" {
		return s.Resume(ctx, p)
	}
	err = op.inTurn(ctx, s, p.Route, false, func() error {
		pauses, err := s.Pauses(ctx, p.Route)
		for _, known := range pauses {
			if known.Group == "" && known.Address == p.Address || known.Address != "" && assembly.RedactURL(known.Address) == p.Address {
				p.Address = known.Address
				changed, err = s.Resume(ctx, p)
				break
			}
		}
		return err
	})
	return changed, err
}
