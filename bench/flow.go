package main

import (
	"bytes"
	"hash/maphash"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// flowSpec says how the messages of an entry are written while its relay runs.
type flowSpec struct {
	rate   int           // messages per second; 0: as fast as it goes
	per    int           // messages of a transaction
	insert string        // the statement: $1 ids, $2 groups, $3 payloads, each text[]
	lead   time.Duration // the beginning that does not count

	uncounted func(group int) bool // groups that are left out of everything that is counted; nil: none
}

// flow is messages that are written while others arrive, for as long as one
// likes: all that is kept of a message are a hash and two times. Message n belongs
// to group n modulo groups, and a group has one writer, so that the messages of a
// group are committed in the order of their numbers.
type flow struct {
	flowSpec
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
	tally  tally // without what is lost
}

// flowWriters write at the same time, each for groups of its own.
const flowWriters = 4

func newFlow(spec flowSpec, rows, groups, size int) *flow {
	rounds := rows/(groups/writersOf(groups))/writersOf(groups) + 3
	n := rounds * groups
	if spec.uncounted == nil {
		spec.uncounted = func(int) bool { return false }
	}
	return &flow{flowSpec: spec, rows: rows, groups: groups, size: size, epoch: time.Now(), seed: maphash.MakeSeed(),
		hashes: make([]atomic.Uint64, n), committed: make([]atomic.Int64, n), arrived: make([]atomic.Int64, n), last: make([]int, groups)}
}

// writersOf is how many writers there are for so many groups.
func writersOf(groups int) int { return min(flowWriters, groups) }

// number is that of a writer's message: its groups in turn.
func (f *flow) number(writer, message int) int {
	step := writersOf(f.groups)
	own := (f.groups - writer + step - 1) / step // how many groups it has
	return (message/own+1)*f.groups + message%own*step + writer
}

// begin starts the clock of the flow: its messages are written from now on.
func (f *flow) begin() { f.begun.Store(f.now()) }

// elapsed is the time since the flow began.
func (f *flow) elapsed() time.Duration { return time.Duration(f.now() - f.begun.Load()) }

// now is the time since the epoch; never 0, which is none.
func (f *flow) now() int64 { return max(int64(time.Since(f.epoch)), 1) }

// hash is never 0, which is none.
func (f *flow) hash(payload []byte) uint64 { return maphash.Bytes(f.seed, payload) | 1 }

// sequence reads the number that begins a payload; 0: there is none.
func sequence(payload []byte) int {
	rest, ok := bytes.CutPrefix(payload, []byte(payloadStart))
	digits, _, closed := bytes.Cut(rest, []byte(","))
	n, err := strconv.Atoi(string(digits))
	if !ok || !closed || err != nil {
		return 0
	}
	return n
}

// arrive notes a message.
func (f *flow) arrive(payload []byte) {
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
		if !f.uncounted(group) {
			f.came++
			f.latest = f.epoch.Add(time.Duration(now))
		}
	}
}

// expected is how many messages of the groups that count will be written.
func (f *flow) expected() (n int) {
	writers := writersOf(f.groups)
	for w := range writers {
		for m := range f.rowsOf(w) {
			if !f.uncounted(f.number(w, m) % f.groups) {
				n++
			}
		}
	}
	return n
}

// rowsOf is how many messages a writer writes.
func (f *flow) rowsOf(writer int) int {
	writers := writersOf(f.groups)
	return (f.rows + writers - 1 - writer) / writers
}

// received is that of [receiver].
func (f *flow) received() (n int, last time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.came, f.latest
}

// verify returns an error unless every message that was committed has arrived
// once and in order; messages of uncounted groups need not arrive.
func (f *flow) verify() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.tally
	for n := range f.committed {
		if f.committed[n].Load() != 0 && f.arrived[n].Load() == 0 && !f.uncounted(n%f.groups) {
			t.Lost++
		}
	}
	return t.err()
}

// delay is how long a message took, and when it was committed, since writing began.
type delay struct{ at, took time.Duration }

// delayTimes are delays, by the time of the commit.
type delayTimes struct {
	lead   time.Duration
	delays []delay
}

// delays returns those of the messages that were committed after the lead. A
// message can be there before its writer has heard that it is committed: it took
// no time.
func (f *flow) delays() delayTimes {
	var out []delay
	for n := range f.committed {
		at, came := f.committed[n].Load(), f.arrived[n].Load()
		since := time.Duration(at - f.begun.Load())
		if at != 0 && came != 0 && since >= f.lead && !f.uncounted(n%f.groups) {
			out = append(out, delay{since, time.Duration(max(came-at, 0))})
		}
	}
	slices.SortFunc(out, func(a, b delay) int { return int(a.at - b.at) })
	return delayTimes{f.lead, out}
}

// quantile of the delays: share 0.99 is the p99.
func (d delayTimes) quantile(share float64) time.Duration { return quantile(d.delays, share) }

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

// overTime calls point with a quantile of the delays of each interval in which
// messages were committed, and with the time from the lead to the interval.
func (d delayTimes) overTime(share float64, interval time.Duration, point func(since, took time.Duration)) {
	for rest := d.delays; len(rest) > 0; {
		slot := (rest[0].at - d.lead) / interval
		end := slices.IndexFunc(rest, func(m delay) bool { return (m.at-d.lead)/interval != slot })
		if end < 0 {
			end = len(rest)
		}
		point(slot*interval, quantile(rest[:end], share))
		rest = rest[end:]
	}
}
