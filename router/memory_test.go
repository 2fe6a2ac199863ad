package router

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
)

// memSource is a log table with a single writer, in memory.
type memSource struct {
	mu      sync.Mutex
	rows    []*adapters.Row
	coming  *adapters.Row // see memInsert
	fetches int
	reads   int
	reached int    // reads that were to come to a place
	slow    func() // called by Fetch between looking at the table and yielding rows
	lending *lending
}

func (m *memSource) add(rows ...*adapters.Row) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range rows {
		r.Position = int64(len(m.rows) + 1)
		r.Slot = adapters.SlotOf(r.Group, r.ID)
		m.rows = append(m.rows, r)
	}
}

func (m *memSource) Check(context.Context) error                     { return nil }
func (m *memSource) Validate(context.Context, adapters.Cursor) error { return nil }
func (m *memSource) Close() error                                    { return nil }

func (m *memSource) Table(context.Context) (adapters.Table, error) {
	return adapters.Table{Cluster: "mem"}, nil
}

func (m *memSource) Anchored(_ context.Context, c adapters.Cursor) (adapters.Cursor, error) {
	return c, nil
}

// Rebase is there for what is said of it.
func (m *memSource) Rebase(context.Context, []adapters.LaneStatus) (map[int]adapters.Cursor, error) {
	return nil, errInjected
}

func (m *memSource) Start(_ context.Context, at adapters.Start) (adapters.Cursor, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if at.Kind == adapters.StartEnd {
		return adapters.Cursor{Position: int64(len(m.rows))}, nil
	}
	return adapters.Cursor{}, nil
}

func (m *memSource) Fetch(_ context.Context, reads []adapters.Read, take func(int, *adapters.Row) bool) ([]adapters.ReadResult, error) {
	m.mu.Lock()
	rows := slices.Clip(m.rows)
	m.fetches++
	m.reads += len(reads)
	m.mu.Unlock()
	if m.slow != nil {
		m.slow()
	}
	out := make([]adapters.ReadResult, len(reads))
	for i, rd := range reads {
		end := int64(len(rows))
		if rd.Until != nil {
			end = min(end, rd.Until.Position)
		}
		page := &adapters.Page{From: rd.From}
		n, drained, cut := 0, true, false
		if rd.AlignedTo > rd.From.Position && rd.Until == nil {
			end, drained = min(end, rd.AlignedTo), false
			m.reached++
		}
		next := adapters.Cursor{Position: max(end, rd.From.Position)}
		for p := rd.From.Position; p < end; p++ {
			if rows[p].Slot != rd.Slot {
				continue
			}
			if n == rd.Limit {
				drained, cut = false, true
				break
			}
			row := *rows[p]
			row.Page, row.Payload = page, m.lending.lend(row.Payload)
			next = row.After()
			if !take(i, &row) {
				return nil, nil
			}
			n++
		}
		if !cut {
			next = adapters.Cursor{Position: max(end, rd.From.Position)}
		}
		out[i] = adapters.ReadResult{Next: next, Drained: drained}
	}
	return out, nil
}

// memState is a state store in memory, with the semantics of the contract.
type memState struct {
	mu        sync.Mutex
	lanes     map[adapters.LaneRef]*adapters.LaneState
	owner     map[adapters.LaneRef]string
	parked    map[adapters.LaneRef]map[int64]adapters.Parked
	counter   map[adapters.LaneRef]int64
	pauses    []adapters.Pause
	instances map[string]*adapters.Instance
	until     map[string]time.Time // of the leases
	unseen    map[string]bool      // see lose
	settles   int
	fail      error
	writing   func(adapters.Settlement) // sees every settlement that is written
	lending   *lending
}

func newMemState() *memState {
	return &memState{lanes: map[adapters.LaneRef]*adapters.LaneState{}, owner: map[adapters.LaneRef]string{},
		parked: map[adapters.LaneRef]map[int64]adapters.Parked{}, counter: map[adapters.LaneRef]int64{},
		instances: map[string]*adapters.Instance{}, until: map[string]time.Time{}}
}

func (m *memState) Migrate(context.Context) error { return nil }
func (m *memState) Close() error                  { return nil }

func (m *memState) Join(_ context.Context, instance string, lease time.Duration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.instances[instance] = &adapters.Instance{ID: instance, JoinedAt: time.Now()}
	m.until[instance] = time.Now().Add(lease)
	return nil
}

func (m *memState) Announce(_ context.Context, instance string, routes []adapters.RunningRoute) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := m.instances[instance]; i != nil {
		i.Routes = slices.Clone(routes)
	}
	return nil
}

func (m *memState) Instances(context.Context) ([]adapters.Instance, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []adapters.Instance
	for _, id := range slices.Sorted(maps.Keys(m.instances)) {
		i := *m.instances[id]
		i.Alive, i.Left = m.alive(id), time.Until(m.until[id])
		out = append(out, i)
	}
	return out, nil
}

// alive tells whether the instance's lease is running; an owner that never
// joined lives for ever.
func (m *memState) alive(instance string) bool {
	until, joined := m.until[instance]
	return !joined || time.Now().Before(until) && !m.unseen[instance]
}

// lose takes away what shows that an instance lives, as a restart of the store does, until it renews its lease, which runs on.
func (m *memState) lose(instance string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.unseen == nil {
		m.unseen = map[string]bool{}
	}
	m.unseen[instance] = true
}

func (m *memState) Renew(_ context.Context, instance string, lease time.Duration) (map[adapters.LaneRef]adapters.LaneMark, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.until[instance] = time.Now().Add(lease)
	delete(m.unseen, instance)
	out := map[adapters.LaneRef]adapters.LaneMark{}
	for ref, o := range m.owner {
		if o == instance {
			out[ref] = adapters.LaneMark{Commands: m.counter[ref]}
			if st := m.lanes[ref]; st != nil {
				out[ref] = adapters.LaneMark{Epoch: st.Epoch, Revision: st.Revision, Commands: m.counter[ref]}
			}
		}
	}
	return out, nil
}

func (m *memState) Leave(_ context.Context, instance string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.owner, func(_ adapters.LaneRef, o string) bool { return o == instance })
	delete(m.instances, instance)
	delete(m.until, instance)
	return nil
}

func (m *memState) Acquire(_ context.Context, instance, route string, slots []int, most int) ([]adapters.LaneState, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if slices.ContainsFunc(m.pauses, func(p adapters.Pause) bool { return p.Route == route && p.OfRoute() }) {
		return nil, adapters.ErrPaused
	}
	var out []adapters.LaneState
	slots = slices.Clone(slots)
	slices.SortStableFunc(slots, func(a, b int) int { // its own first
		own := func(slot int) bool { return m.owner[adapters.LaneRef{Route: route, Slot: slot}] == instance }
		switch {
		case own(a) == own(b):
			return 0
		case own(a):
			return -1
		}
		return 1
	})
	for _, slot := range slots {
		ref := adapters.LaneRef{Route: route, Slot: slot}
		if o := m.owner[ref]; o != "" && o != instance && m.alive(o) || len(out) == most {
			continue
		}
		st := m.lanes[ref]
		if st == nil {
			st = &adapters.LaneState{LaneRef: ref, New: true, NextSeq: 1}
			m.lanes[ref] = st
		}
		st.Epoch++
		m.owner[ref] = instance
		copied := *st
		copied.Beyond = slices.Clone(st.Beyond)
		copied.Commands = m.counter[ref]
		out = append(out, copied)
	}
	return out, nil
}

func (m *memState) Bind(_ context.Context, route string, table adapters.Table) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for ref, st := range m.lanes {
		if ref.Route == route && (!st.New || st.Table.Name != "") && !st.Table.Is(table) {
			return &adapters.OtherTable{Cursor: st.Table, Source: table}
		}
	}
	for ref, st := range m.lanes {
		if ref.Route == route && st.Table.Name == "" {
			st.Table = table
		}
	}
	return nil
}

func (m *memState) Settle(_ context.Context, all []adapters.Settlement) (fenced []adapters.LaneRef, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.settles++
	if m.fail != nil {
		return nil, m.fail
	}
	for _, s := range all {
		st := m.lanes[s.LaneRef]
		if st == nil || st.Epoch != s.Epoch || st.Revision < s.Confirmed {
			fenced = append(fenced, s.LaneRef)
			continue
		}
		if m.writing != nil {
			m.writing(s)
		}
		st.New, st.Cursor, st.Beyond, st.NextSeq, st.Table, st.Revision = false, s.Cursor, s.Beyond, s.NextSeq, s.Table, s.Revision
		if m.parked[s.LaneRef] == nil {
			m.parked[s.LaneRef] = map[int64]adapters.Parked{}
		}
		for _, p := range s.Park {
			if m.lending != nil {
				p.Payload = slices.Clone(p.Payload)
			}
			row, there := m.parked[s.LaneRef][p.Seq]
			redriven := p.Was > 0 && there && row.Attempts == 0 && row.Status == adapters.ParkedRetrying
			if (there || p.Seq >= s.Stored) && !redriven {
				p.Was = 0
				m.parked[s.LaneRef][p.Seq] = p
			}
		}
		for _, seq := range s.Unpark {
			delete(m.parked[s.LaneRef], seq)
		}
	}
	return fenced, nil
}

func (m *memState) queue(ref adapters.LaneRef) []adapters.Parked {
	var out []adapters.Parked
	for _, p := range m.parked[ref] {
		if p.Status != adapters.ParkedDead {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b adapters.Parked) int { return int(a.Seq - b.Seq) })
	return out
}

func (m *memState) ParkedGroups(_ context.Context, route string, slots []int) ([]adapters.ParkedGroup, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []adapters.ParkedGroup
	for _, slot := range slots {
		out = append(out, m.parkedGroups(adapters.LaneRef{Route: route, Slot: slot})...)
	}
	return out, nil
}

func (m *memState) parkedGroups(ref adapters.LaneRef) (out []adapters.ParkedGroup) {
	groups := map[string]*adapters.ParkedGroup{}
	for _, p := range m.queue(ref) {
		k := p.Group
		if k == "" {
			k = fmt.Sprint("\x00", p.Seq)
		}
		if g := groups[k]; g != nil {
			g.Count++
			continue
		}
		groups[k] = &adapters.ParkedGroup{Slot: ref.Slot, Group: p.Group, Count: 1, FirstSeq: p.Seq, Due: p.NextAttemptAt,
			Held: p.Status == adapters.ParkedHeld}
	}
	for _, g := range groups {
		out = append(out, *g)
	}
	return out
}

func (m *memState) ParkedQueue(_ context.Context, ref adapters.LaneRef, group string, after int64, limit int, bytes int64) ([]adapters.Parked, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []adapters.Parked
	for _, p := range m.queue(ref) {
		if p.Group == group && p.Seq > after && len(out) < limit {
			p.Size = int64(len(p.Payload))
			if bytes -= p.Size; bytes < 0 {
				p.Metadata, p.Payload, p.Bare = nil, nil, true
			}
			p.Metadata, p.Payload = maps.Clone(p.Metadata), m.lending.lend(p.Payload) // as reading it from a database does
			out = append(out, p)
		}
	}
	return out, nil
}

// setFail makes settling fail, or work again.
func (m *memState) setFail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fail = err
}

// evict takes all lanes from their owners, as the end of a lease does.
func (m *memState) evict() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.owner)
}

// expire ends the lease of an instance.
func (m *memState) expire(instance string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.until[instance] = time.Now()
}

func (m *memState) ListParked(context.Context, adapters.ParkedFilter, int64) ([]adapters.Parked, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []adapters.Parked
	for _, rows := range m.parked {
		for _, p := range rows {
			out = append(out, p)
		}
	}
	return out, nil
}

func (m *memState) CountParked(context.Context, adapters.ParkedCommand) ([]adapters.ParkedCount, error) {
	return nil, nil
}

// ChangeParked knows of the filter the id alone, and no steps: a redrive makes
// everything due that is dead or held, and what is retrying when it is named, a skip deletes
// what is not dead, a purge what is.
func (m *memState) ChangeParked(_ context.Context, c adapters.ParkedCommand) (step adapters.ParkedStep, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for ref, rows := range m.parked {
		for seq, p := range rows {
			dead := p.Status == adapters.ParkedDead
			switch {
			case c.Filter.ID != "" && c.Filter.ID != p.ID:
				continue
			case c.Action == adapters.ParkedPurge && dead: // no owner has to know
				delete(rows, seq)
				step.Changed++
				continue
			case c.Action == adapters.ParkedRedrive && (dead || p.Status == adapters.ParkedHeld || p.Status == adapters.ParkedRetrying && c.Filter.ID != ""):
				p.Status, p.Attempts, p.NextAttemptAt = adapters.ParkedRetrying, 0, time.Time{}
				rows[seq] = p
			case c.Action == adapters.ParkedSkip && !dead:
				delete(rows, seq)
			default:
				continue
			}
			m.counter[ref]++
			step.Changed++
		}
	}
	return step, nil
}

// redrive makes everything due that is dead or held.
func (m *memState) redrive() int {
	step, _ := m.ChangeParked(context.Background(), adapters.ParkedCommand{Action: adapters.ParkedRedrive, All: true})
	return step.Changed
}

func (m *memState) Lanes(context.Context) ([]adapters.LaneStatus, error) { return nil, nil }

// receiver is a destination that records, with faults to inject.
type receiver struct {
	ordering adapters.Ordering
	fail     func(address string, msg *message.Message) error

	mu      sync.Mutex
	got     []*message.Message
	batches int
}

func (r *receiver) Ordering() adapters.Ordering { return r.ordering }
func (r *receiver) Close() error                { return nil }
func (r *receiver) Address(msg *message.Message) (string, error) {
	if a := msg.Metadata["address"]; a != "" {
		return a, nil
	}
	return "main", nil
}

func (r *receiver) Deliver(_ context.Context, address string, batch []*message.Message) []error {
	errs := make([]error, len(batch))
	blocked := map[string]bool{}
	r.mu.Lock()
	fail := r.fail
	r.mu.Unlock()
	var taken []*message.Message
	for i, msg := range batch {
		group := msg.Metadata[outbox.MetaGroup]
		if group != "" && blocked[group] {
			errs[i] = outbox.Released(errors.New("an earlier message of the group failed"))
			continue
		}
		if fail != nil {
			if errs[i] = fail(address, msg); errs[i] != nil {
				blocked[group] = true
				continue
			}
		}
		taken = append(taken, msg)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got = append(r.got, taken...)
	r.batches++
	return errs
}

func (r *receiver) setFail(f func(string, *message.Message) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fail = f
}

// has tells whether the message has arrived.
func (r *receiver) has(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.got, func(msg *message.Message) bool { return msg.UUID == id })
}

// count is the number of messages that have arrived.
func (r *receiver) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.got)
}

// arrived returns the ids in order of arrival.
func (r *receiver) arrived() (ids []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, msg := range r.got {
		ids = append(ids, msg.UUID)
	}
	return ids
}

// received returns the ids per group in order of arrival.
func (r *receiver) received() map[string][]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := map[string][]string{}
	for _, msg := range r.got {
		g := msg.Metadata[outbox.MetaGroup]
		out[g] = append(out[g], msg.UUID)
	}
	return out
}
