package claiming

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/internal/failpoint"
	"github.com/outriderhq/outrider/router/internal/lane"
	"github.com/outriderhq/outrider/router/internal/signal"
)

// Hot says how rows are delivered from memory that transactions of this process have committed.
type Hot struct {
	Capacity   int           // rows that wait for the claimer at most
	SkipRecent time.Duration // claims leave younger rows to the hot path, once it is in use
}

// Rows that the hot path has left to claims are claimed soon: until then, what comes later in their groups is left to claims, too. The
// pauses between such claims double while they bring nothing, for example because a group is paused.
const (
	hotPause    = 20 * time.Millisecond
	longHotRest = time.Second
)

// hotPath is the queue of rows that were committed and wait for the claimer. The claimer takes them between two claims, so no statement
// in flight brings them, or rows before them.
type hotPath struct {
	queue     adapters.HotQueue // nil: there is none
	cfg       Hot
	log       *slog.Logger
	committed chan struct{}
	used      atomic.Bool

	// Of the claimer's goroutine:
	leftToClaims bool          // rows were left to claims
	hurriedAt    time.Time     // when the last claim began that was to find such
	rest         time.Duration // until the next one

	mu      sync.Mutex
	waiting []hotBatch
	rows    int
	bytes   int64
	burst   bool // rows were dropped, and less than half of the room has been free since

	taken, dropped atomic.Int64
}

// open makes the hot path of a queue, if it can have one.
func (h *hotPath) open(queue adapters.Queue, cfg Hot, log *slog.Logger) {
	if h.cfg, h.log, h.committed = cfg, log, make(chan struct{}, 1); cfg.Capacity > 0 {
		h.queue, _ = queue.(adapters.HotQueue)
	}
}

func (h *hotPath) addStats(s *adapters.QueueStats) {
	s.HotTaken, s.HotDropped = h.taken.Load(), h.dropped.Load()
	s.HotWaiting, _ = h.depth()
}

// hotBatch has the rows of one INSERT.
type hotBatch struct {
	rows     []*adapters.HotRow
	sessions [][adapters.Slots]*lane.Session // by route, as the INSERT began
}

// Insert is an INSERT into the queue's table whose rows are to be delivered from memory after the commit.
type Insert struct {
	adapters.HotInsert
	claimer  *Claimer
	sessions [][adapters.Slots]*lane.Session
}

// Announce prepares an INSERT; nil: its rows are left to claims. It counts only in the session of a lane in which it began.
func (c *Claimer) Announce(insert string) *Insert {
	h := &c.hot
	if h.queue == nil {
		return nil
	}
	h.used.Store(true)
	sessions, works := c.sessions()
	if !works {
		return nil
	}
	in := h.queue.Announce(insert)
	if in == nil {
		return nil
	}
	return &Insert{in, c, sessions}
}

// Versions implements outbox.HotVersions.
func (in *Insert) Versions() (xid string, places []string) {
	for _, row := range in.Rows() {
		xid, places = row.XID, append(places, row.Place)
	}
	return xid, places
}

// Committed gives the rows to the claimer. It waits for nothing: what has no room is left to claims.
func (in *Insert) Committed() {
	rows := in.Rows()
	if len(rows) == 0 {
		return
	}
	failpoint.Hit(failpoint.Hot)
	h := &in.claimer.hot
	kept := h.offer(rows, in.sessions, in.claimer.free())
	if kept > 0 {
		signal.Send(h.committed)
	}
}

// offer keeps as many rows as there is room for.
func (h *hotPath) offer(rows []*adapters.HotRow, sessions [][adapters.Slots]*lane.Session, memory int64) (kept int) {
	h.mu.Lock()
	for kept < len(rows) && h.rows < h.cfg.Capacity && memory >= int64(rows[kept].Bytes) {
		memory -= int64(rows[kept].Bytes)
		h.bytes += int64(rows[kept].Bytes)
		h.rows++
		kept++
	}
	if kept > 0 {
		h.waiting = append(h.waiting, hotBatch{rows[:kept], sessions})
	}
	left := len(rows) - kept
	tell := left > 0 && !h.burst
	h.burst = h.burst || left > 0
	h.mu.Unlock()
	h.taken.Add(int64(kept))
	h.dropped.Add(int64(left))
	if tell {
		h.log.Warn("the hot queue is full: committed rows stay in the table until the next poll finds them",
			"capacity", h.cfg.Capacity, "left", left)
	}
	return kept
}

// take returns what has waited for the longest, as many rows at most.
func (h *hotPath) take(most int) (out []hotBatch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for most > 0 && len(h.waiting) > 0 {
		b := h.waiting[0]
		if len(b.rows) > most {
			h.waiting[0].rows = b.rows[most:]
			b.rows = b.rows[:most]
		} else if h.waiting = h.waiting[1:]; len(h.waiting) == 0 {
			h.waiting = nil // with what is before them in memory
		}
		most -= len(b.rows)
		h.rows -= len(b.rows)
		for _, row := range b.rows {
			h.bytes -= int64(row.Bytes)
		}
		out = append(out, b)
	}
	if h.rows <= h.cfg.Capacity/2 {
		h.burst = false
	}
	return out
}

// depth is how many rows wait, and the memory that they take.
func (h *hotPath) depth() (rows int, bytes int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.rows, h.bytes
}

// serveHot claims what waits in the hot queue, as far as there is room: a quarter is left to claims. It counts as a claim: it has a
// number, brings nothing of excluded groups, and is in flight until its rows are in their lanes.
func (c *Claimer) serveHot() {
	h := &c.hot
	batches := h.take(max(c.claims.InMemory-c.claims.InMemory/4, 1) - c.ledger.size())
	if len(batches) == 0 {
		return
	}
	number := c.ledger.begin()
	w := c.wanted()
	req := adapters.ClaimRequest{Slots: w.slots, PerGroup: c.claims.PerGroup, Wants: c.wanting.number(w)}
	req.Terms = c.wanting.termsOf(w.slots)
	var rows []*adapters.Row
	for _, b := range batches {
		req.Match = func(row *adapters.Row) bool { return c.admitsHot(w, b.sessions, row) }
		claimed, left := h.queue.ClaimHot(req, b.rows)
		rows = append(rows, claimed...)
		h.leftToClaims = h.leftToClaims || left > 0
	}
	c.handOut(w, c.receive(w, rows), number)
}

// admitsHot reports whether a row may enter its lane: in the session in which its INSERT began, when nothing of its group is on its
// way back.
func (c *Claimer) admitsHot(w *wanted, began [][adapters.Slots]*lane.Session, row *adapters.Row) bool {
	i, slot := w.route(row), adapters.SlotOf(row.Group, row.ID)
	if i < 0 || !w.open[i][slot] || w.sessions[i][slot] != began[i][slot] || w.paused[i].Has(row.Group) {
		return false
	}
	key := exclusionKey{group: c.routes[i].Key(row.Group)}
	return key.group == "" || !c.ledger.excludes(key)
}

// before says how old rows have to be for the claim that begins, and reports whether it is to find what was left to it.
func (h *hotPath) before() (hurried bool) {
	if h.queue == nil || !h.used.Load() {
		return false
	}
	age := h.cfg.SkipRecent
	if hurried = h.leftToClaims; hurried {
		age, h.hurriedAt = 0, time.Now()
	}
	h.queue.SkipRecent(age)
	return hurried
}

// after notes the outcome of such a claim.
func (h *hotPath) after(hurried bool, got outcome) {
	if !hurried {
		return
	}
	if h.leftToClaims = got.full; got.rows > 0 {
		h.rest = hotPause
	} else {
		h.rest = min(2*max(h.rest, hotPause), longHotRest)
	}
}

// within returns how long to wait for the claim of rows that were left to it, at most the given pause.
func (h *hotPath) within(pause time.Duration) time.Duration {
	if !h.leftToClaims {
		return pause
	}
	return min(pause, max(max(h.rest, hotPause)-time.Since(h.hurriedAt), 0))
}

func (l *ledger) excludes(key exclusionKey) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.excluded[key] != nil
}
