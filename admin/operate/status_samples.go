package operate

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/status"
)

// Samples are the parts of the status that may be expensive. A running relay keeps them, each for a hundred times as long as
// taking it took, but not for longer than half a minute: so they take at most a hundredth of its time. The zero value has none.
type Samples struct {
	Lanes []adapters.LaneStatus // of the latest status

	tally        sample[map[adapters.LaneRef]adapters.LaneCounts]
	dead         sample[DeadRows]
	lags         sample[map[string]routeLag]
	failing      sample[map[string]*status.Failing]
	transactions map[string]openTransactions // by source
}

// sample is a part of the status, and what taking it cost.
type sample[T any] struct {
	at    time.Time
	cost  time.Duration
	value T
	err   error
}

const (
	sampleAge   = time.Second           // for how long a sample counts at least
	sampleShare = 100                   // and for so many times its cost,
	sampleOld   = 30 * time.Second      // but no longer than this
	sampleCheap = 50 * time.Millisecond // a change of the state ends samples that cost less
)

// get returns the sample, or takes another one.
func (s *sample[T]) get(take func() (T, error)) (T, error) {
	if !s.at.IsZero() && time.Since(s.at) < min(max(sampleAge, sampleShare*s.cost), sampleOld) {
		return s.value, s.err
	}
	begun := time.Now()
	s.value, s.err = take()
	s.at, s.cost = time.Now(), time.Since(begun)
	return s.value, s.err
}

// changed drops the sample if another one is cheap.
func (s *sample[T]) changed() {
	if s.cost < sampleCheap {
		s.at = time.Time{}
	}
}

// Changed drops what is cheap to find out again, because the state was changed.
func (s *Samples) Changed() {
	s.tally.changed()
	s.dead.changed()
	s.lags.changed()
	s.failing.changed()
}

// Cursors returns the lanes of some routes (nil: of all) without counts.
func (op *Operator) Cursors(ctx context.Context, routes []string) (out []adapters.LaneStatus, err error) {
	for _, s := range op.stores {
		lanes, err := s.Cursors(ctx, routes)
		if err != nil {
			return nil, err
		}
		out = append(out, lanes...)
	}
	return out, nil
}

// CountLanes counts the parked messages of all lanes.
func (op *Operator) CountLanes(ctx context.Context) (map[adapters.LaneRef]adapters.LaneCounts, error) {
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
func (op *Operator) countLanes(ctx context.Context, l *Samples, lanes []adapters.LaneStatus) error {
	counts, err := l.tally.get(func() (map[adapters.LaneRef]adapters.LaneCounts, error) { return op.CountLanes(ctx) })
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

// routeLag is how far a route is behind, and what else its source reports.
type routeLag struct {
	processing *status.Marked
	behind     *adapters.Backlog // nil: not known
	failed     string            // why the source could not be asked
}

// lags asks the sources about all routes.
func (op *Operator) lags(ctx context.Context, rows []status.RouteStatus, lanes map[string][]adapters.LaneStatus) map[string]routeLag {
	ctx, cancel := context.WithTimeout(ctx, lagPatience)
	defer cancel()
	asked := askedSources{op: op, from: map[string]string{}, processing: map[string]*status.Marked{}, silent: map[string]bool{}, failed: map[string]string{}, lags: map[string]adapters.Backlog{}}
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
			s.processing[from] = &status.Marked{Rows: n.Rows, More: n.More, Longest: n.Longest.Seconds()}
		}
	}
	l.processing = s.processing[from]
	lag, err := s.lag(ctx, route, lanes)
	if err == nil {
		l.behind = &lag
		return l
	}
	_, uncounted := errors.AsType[Refusal](err)
	s.silent[from] = !errors.Is(err, ErrNeverRan)
	if s.silent[from] && !uncounted && ctx.Err() == nil && !s.op.build.Source(from).Supplied {
		l.failed = err.Error()
		s.failed[from] = l.failed
	}
	return l
}
