package measure

import (
	"bytes"
	"hash/maphash"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// FlowSpec says how the messages of an entry are written while its relay runs.
type FlowSpec struct {
	Rate   int           // messages per second; 0: as fast as it goes
	Per    int           // messages of a transaction
	Insert string        // the statement: $1 ids, $2 groups, $3 payloads, each text[]
	Lead   time.Duration // the beginning that does not count

	Uncounted func(group int) bool // groups whose messages do not count; nil: none
}

// Flow is a stream of messages that are written while others arrive. It can run
// long, as it keeps only a hash and two times of each message. Message n belongs to
// group n modulo groups. A group has one writer, so its messages are committed in
// the order of their numbers.
type Flow struct {
	FlowSpec
	rows, groups, size int
	epoch              time.Time
	begun              atomic.Int64 // nanoseconds since epoch when writing began

	seed      maphash.Seed
	hashes    []atomic.Uint64 // by number; 0: it was not written
	committed []atomic.Int64  // nanoseconds since epoch when COMMIT had returned; 0: it has not
	arrived   []atomic.Int64  // the same of the first arrival

	mu     sync.Mutex
	came   int // messages, each once
	latest time.Time
	last   []int // by group: the highest number that arrived
	tally  Tally // without what is lost
}

// FlowWriters is the number of writers. Each has its own groups.
const FlowWriters = 4

// NewFlow returns a flow of so many rows, with payloads of size bytes.
func NewFlow(spec FlowSpec, rows, groups, size int) *Flow {
	rounds := rows/(groups/writersOf(groups))/writersOf(groups) + 3
	n := rounds * groups
	if spec.Uncounted == nil {
		spec.Uncounted = func(int) bool { return false }
	}
	return &Flow{FlowSpec: spec, rows: rows, groups: groups, size: size, epoch: time.Now(), seed: maphash.MakeSeed(),
		hashes: make([]atomic.Uint64, n), committed: make([]atomic.Int64, n), arrived: make([]atomic.Int64, n), last: make([]int, groups)}
}

// writersOf returns the number of writers for so many groups.
func writersOf(groups int) int { return min(FlowWriters, groups) }

// number returns the number of a writer's message. Its groups take turns.
func (f *Flow) number(writer, message int) int {
	step := writersOf(f.groups)
	own := (f.groups - writer + step - 1) / step // the writer's groups
	return (message/own+1)*f.groups + message%own*step + writer
}

// Begin starts the clock of the flow: its messages are written from now on.
func (f *Flow) Begin() { f.begun.Store(f.now()) }

// Elapsed is the time since the flow began.
func (f *Flow) Elapsed() time.Duration { return time.Duration(f.now() - f.begun.Load()) }

// now is the time since the epoch, never 0.
func (f *Flow) now() int64 { return max(int64(time.Since(f.epoch)), 1) }

// hash is never 0.
func (f *Flow) hash(payload []byte) uint64 { return maphash.Bytes(f.seed, payload) | 1 }

// sequence reads the number at the beginning of a payload, or returns 0.
func sequence(payload []byte) int {
	rest, ok := bytes.CutPrefix(payload, []byte(payloadStart))
	digits, _, closed := bytes.Cut(rest, []byte(","))
	n, err := strconv.Atoi(string(digits))
	if !ok || !closed || err != nil {
		return 0
	}
	return n
}

// arrive records the arrival of a message.
func (f *Flow) arrive(payload []byte) {
	n, now := sequence(payload), f.now()
	known := n > 0 && n < len(f.hashes) && f.hashes[n].Load() == f.hash(payload)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tally.Records++
	switch {
	case !known:
		f.tally.Foreign++
	case !f.arrived[n].CompareAndSwap(0, now):
		f.tally.Duplicates++
	default:
		group := n % f.groups
		if n < f.last[group] {
			f.tally.OutOfOrder++
		}
		f.last[group] = max(f.last[group], n)
		if !f.Uncounted(group) {
			f.came++
			f.latest = f.epoch.Add(time.Duration(now))
		}
	}
}

// Expected returns the number of messages that will be written and count.
func (f *Flow) Expected() (n int) {
	writers := writersOf(f.groups)
	for w := range writers {
		for m := range f.rowsOf(w) {
			if !f.Uncounted(f.number(w, m) % f.groups) {
				n++
			}
		}
	}
	return n
}

// rowsOf returns the number of messages of a writer.
func (f *Flow) rowsOf(writer int) int {
	writers := writersOf(f.groups)
	return (f.rows + writers - 1 - writer) / writers
}

// Received returns how many messages have come, and when the last one did.
func (f *Flow) Received() (n int, last time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.came, f.latest
}

// Verify returns an error unless every message that was committed has arrived
// once and in order; messages of uncounted groups need not arrive.
func (f *Flow) Verify() error { return f.Outcome().err() }

// Outcome counts what has happened to the messages that were committed.
func (f *Flow) Outcome() Tally {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.tally
	for n := range f.committed {
		if f.committed[n].Load() != 0 && f.arrived[n].Load() == 0 && !f.Uncounted(n%f.groups) {
			t.Lost++
		}
	}
	return t
}

// delay has the time of a commit since writing began, and the time from the commit
// to the arrival.
type delay struct{ at, took time.Duration }

// DelayTimes are the delays of messages, ordered by the time of the commit.
type DelayTimes struct {
	lead   time.Duration
	delays []delay
}

// Delays returns the delays of the messages that count and were committed after
// the lead. A message that arrived before its writer saw the commit has delay 0.
func (f *Flow) Delays() DelayTimes {
	var out []delay
	for n := range f.committed {
		at, came := f.committed[n].Load(), f.arrived[n].Load()
		since := time.Duration(at - f.begun.Load())
		if at != 0 && came != 0 && since >= f.Lead && !f.Uncounted(n%f.groups) {
			out = append(out, delay{since, time.Duration(max(came-at, 0))})
		}
	}
	slices.SortFunc(out, func(a, b delay) int { return int(a.at - b.at) })
	return DelayTimes{f.Lead, out}
}

// Quantile of the delays: share 0.99 is the p99.
func (d DelayTimes) Quantile(share float64) time.Duration { return quantile(d.delays, share) }

func quantile(delays []delay, share float64) time.Duration {
	if len(delays) == 0 {
		return 0
	}
	took := make([]time.Duration, len(delays))
	for i, d := range delays {
		took[i] = d.took
	}
	slices.Sort(took)
	return took[min(int(share*float64(len(took))), len(took)-1)]
}

// OverTime calls point for each interval in which messages were committed, with
// the time from the lead to the interval and a quantile of its delays.
func (d DelayTimes) OverTime(share float64, interval time.Duration, point func(since, took time.Duration)) {
	for rest := d.delays; len(rest) > 0; {
		slot := int64((rest[0].at - d.lead) / interval)
		end := slices.IndexFunc(rest, func(m delay) bool { return int64((m.at-d.lead)/interval) != slot })
		if end < 0 {
			end = len(rest)
		}
		point(time.Duration(slot)*interval, quantile(rest[:end], share))
		rest = rest[end:]
	}
}
