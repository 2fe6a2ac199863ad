package admin

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/outriderhq/outrider/adapters"
)

// looks are the parts of the status that may be expensive. A [Console] remembers them, each for a hundred times
// as long as finding it out took, but not for longer than half a minute: so a relay at work does not notice them.
type looks struct {
	tally   piece[map[adapters.LaneRef]adapters.LaneCounts]
	dead    piece[DeadRows]
	lags    piece[map[string]routeLag]
	failing piece[map[string]*Failing]
	lanes   []adapters.LaneStatus // of the latest status
}

// piece is something that was found out, and what that cost.
type piece[T any] struct {
	at    time.Time
	cost  time.Duration
	value T
	err   error
}

const (
	lookShare = 100                   // a look is repeated after so many times its cost
	lookOld   = 30 * time.Second      // or after this time
	lookCheap = 50 * time.Millisecond // a look is repeated when something was changed, if it costs less
)

// get returns what was found out, or finds it out.
func (p *piece[T]) get(find func() (T, error)) (T, error) {
	if !p.at.IsZero() && time.Since(p.at) < min(max(snapshotAge, lookShare*p.cost), lookOld) {
		return p.value, p.err
	}
	begun := time.Now()
	p.value, p.err = find()
	p.at, p.cost = time.Now(), time.Since(begun)
	return p.value, p.err
}

// changed has it found out again, if that is cheap.
func (p *piece[T]) changed() {
	if p.cost < lookCheap {
		p.at = time.Time{}
	}
}

// changed is [piece.changed] of all.
func (l *looks) changed() {
	l.tally.changed()
	l.dead.changed()
	l.lags.changed()
	l.failing.changed()
}

// cursors returns the lanes of some routes (nil: of all) without counts.
func (op *Operator) cursors(ctx context.Context, routes []string) (out []adapters.LaneStatus, err error) {
	for _, s := range op.stores {
		lanes, err := s.Cursors(ctx, routes)
		if err != nil {
			return nil, err
		}
		out = append(out, lanes...)
	}
	return out, nil
}

// parkedCounts counts the parked messages of all lanes.
func (op *Operator) parkedCounts(ctx context.Context) (map[adapters.LaneRef]adapters.LaneCounts, error) {
	all := map[adapters.LaneRef]adapters.LaneCounts{}
	for _, s := range op.stores {
		counts, err := s.CountLanes(ctx)
		if err != nil {
			return nil, err
		}
		maps.Copy(all, counts)
	}
	return all, nil
}

// countLanes adds to lanes what is parked of them.
func (op *Operator) countLanes(ctx context.Context, l *looks, lanes []adapters.LaneStatus) error {
	counts, err := l.tally.get(func() (map[adapters.LaneRef]adapters.LaneCounts, error) { return op.parkedCounts(ctx) })
	if err != nil {
		l.tally.at = time.Time{}
		return err
	}
	for i := range lanes {
		if n, ok := counts[lanes[i].LaneRef]; ok {
			lanes[i].Retrying, lanes[i].Waiting, lanes[i].Held, lanes[i].Dead = n.Retrying, n.Waiting, n.Held, n.Dead
		}
	}
	return nil
}

// routeLag is how far a route is behind, and what its source says beside that.
type routeLag struct {
	processing *Marked
	behind     *adapters.Backlog // nil: not known
	failed     string            // why the source could not be asked
}

// lags asks the sources about all routes.
func (op *Operator) lags(ctx context.Context, rows []RouteStatus, lanes map[string][]adapters.LaneStatus) map[string]routeLag {
	ctx, cancel := context.WithTimeout(ctx, lagPatience)
	defer cancel()
	asked := askedSources{op: op, from: map[string]string{}, processing: map[string]*Marked{}, silent: map[string]bool{}, failed: map[string]string{}, lags: map[string]adapters.Backlog{}}
	for _, r := range op.build.Config.Routes {
		asked.from[r.Name] = r.From
	}
	asked.sums = op.sumLags(ctx, asked.from, lanes)
	out := map[string]routeLag{}
	for i := range rows {
		r := &rows[i]
		if k := op.build.Source(asked.from[r.Route]); r.Lanes > 0 && !r.Foreign && (k.Log || k.Queue) { // of others there is nothing to count
			out[r.Route] = asked.ask(ctx, r.Route, lanes[r.Route])
		}
	}
	return out
}

// ask finds out how far a route is behind. A source that is down, or that cannot
// count, is no reason to show nothing: the numbers are left out.
func (s *askedSources) ask(ctx context.Context, route string, lanes []adapters.LaneStatus) (l routeLag) {
	from := s.from[route]
	if s.silent[from] {
		return routeLag{failed: s.failed[from]}
	}
	if _, asked := s.processing[from]; !asked {
		s.processing[from] = nil
		if n, err := s.op.Processing(ctx, route); err == nil {
			s.processing[from] = &Marked{Rows: n.Rows, More: n.More, Longest: n.Longest.Seconds()}
		}
	}
	l.processing = s.processing[from]
	lag, err := s.lag(ctx, route, lanes)
	if err == nil {
		l.behind = &lag
		return l
	}
	_, uncounted := errors.AsType[refusal](err)
	s.silent[from] = !errors.Is(err, ErrNeverRan)
	if s.silent[from] && !uncounted && ctx.Err() == nil && !s.op.build.Source(from).Supplied {
		l.failed = err.Error()
		s.failed[from] = l.failed
	}
	return l
}
