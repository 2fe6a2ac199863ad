package lane

import (
	"errors"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outriderhq/outrider/adapters"
)

// routeStats are the counters of a route.
type routeStats struct {
	deliveredN atomic.Int64
	retried    atomic.Int64
	dead       atomic.Int64
	parked     atomic.Int64
	batches    ageCounts    // of order global, by how long they took
	sending    atomic.Int64 // nanoseconds that those took
	lastAge    atomic.Int64 // nanoseconds from commit (about) to delivery, of the latest message
	ages       ageCounts
	ageSum     atomic.Uint64 // seconds of all ages, as the bits of a float64: nanoseconds of a backlog of days overflow an int64
	measured   atomic.Int64  // how many were delivered when an age was last measured
	exact      atomic.Int64  // how many more deliveries have their age measured, whatever their number

	mu      sync.Mutex
	skipped map[string]int64
	skips   skips
}

// ageCounts are [adapters.AgeCounts] that several goroutines add to.
type ageCounts [len(adapters.AgeBounds) + 1]atomic.Int64

func (c *ageCounts) add(age time.Duration, n int64) {
	bucket, _ := slices.BinarySearch(adapters.AgeBounds[:], age)
	c[bucket].Add(n)
}

func (c *ageCounts) load() (out adapters.AgeCounts) {
	for i := range out {
		out[i] = c[i].Load()
	}
	return out
}

func (s *routeStats) delivered(it *Item) {
	// On a busy route the age of every 64th is enough: time.Now and reading the row are not free. On a quiet route all count.
	n := s.deliveredN.Add(1)
	if n%64 != 1 && s.exact.Load() <= 0 {
		return
	}
	if created := it.Created(); !created.IsZero() {
		s.exact.Add(-1)
		s.measure(time.Since(created), n)
	}
}

// measure counts the age of the nth message for those that were delivered since the last one that was measured: otherwise a busy time would weigh
// less in a percentile than a quiet one.
func (s *routeStats) measure(age time.Duration, n int64) {
	s.lastAge.Store(int64(age))
	last := s.measured.Load()
	for ; n > last; last = s.measured.Load() {
		if s.measured.CompareAndSwap(last, n) {
			break
		}
	}
	if n <= last { // a later one was measured meanwhile, and counts for this one
		return
	}
	n -= last
	s.ages.add(age, n)
	for {
		sum := s.ageSum.Load()
		if s.ageSum.CompareAndSwap(sum, math.Float64bits(math.Float64frombits(sum)+float64(n)*age.Seconds())) {
			return
		}
	}
}

// exactAges is how many deliveries have their age measured after the counters were read.
const exactAges = 64

func (s *routeStats) skip(reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.skipped == nil {
		s.skipped = map[string]int64{}
	}
	s.skipped[reason]++
}

// skipItem counts a skipped message, and remembers it for a while.
func (s *routeStats) skipItem(it *Item, reason string) {
	s.skip(reason)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.skips.add(it.id(), it.rowSlot(), it.position(), reason)
}

// logPanic logs the stack of a panic, the first time that it happens in a line of code. The message's error has the line.
func (r *Route) logPanic(err error) {
	p, ok := errors.AsType[*adapters.PanicError](err)
	if !ok {
		return
	}
	if _, known := r.panics.LoadOrStore(p.Place, nil); !known {
		r.Log().Error("a panic counts as a failed attempt; its stack is logged this once", "error", p, "stack", p.Stack)
	}
}

// CountRetried counts an attempt that failed and is followed by another.
func (r *Route) CountRetried() { r.stats.retried.Add(1) }

// CountSkipped counts a message that is not delivered, by the reason.
func (r *Route) CountSkipped(reason string) { r.stats.skip(reason) }

// Stats returns the counters of the route, except those of its owner and its queue.
func (r *Route) Stats() adapters.RouteStats {
	s := adapters.RouteStats{
		Route: r.Name, Delivered: r.stats.deliveredN.Load(), Retried: r.stats.retried.Load(),
		Dead: r.stats.dead.Load(), Parked: r.stats.parked.Load(), Batches: r.stats.batches.load(), Sending: time.Duration(r.stats.sending.Load()),
		Age: time.Duration(r.stats.lastAge.Load()), Ages: r.stats.ages.load(),
		AgeSum: math.Float64frombits(r.stats.ageSum.Load()), Skipped: map[string]int64{}, Down: r.down(),
	}
	if d, ok := r.Destination.(adapters.DuplicateCounter); ok {
		s.Duplicates = d.Duplicates()
	}
	r.stats.exact.Store(exactAges)
	r.stats.mu.Lock()
	maps.Copy(s.Skipped, r.stats.skipped)
	r.stats.mu.Unlock()
	for _, x := range r.Sessions() {
		addStats(x, &s)
	}
	return s
}

// down lists the addresses that are down, and those whose deliveries wait for an answer that the destination does not expect soon.
func (r *Route) down() []adapters.AddressStatus {
	out := r.Health.Status(textOf)
	reporter, ok := r.Destination.(adapters.AddressReporter)
	if !ok {
		return out
	}
	for _, s := range reporter.Unanswered() {
		s.Address = r.redact(s.Address)
		if !slices.ContainsFunc(out, func(o adapters.AddressStatus) bool { return o.Address == s.Address }) {
			out = append(out, s)
		}
	}
	return out
}
