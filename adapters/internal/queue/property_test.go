package queue

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/layout"
	"github.com/outriderhq/outrider/outbox"
)

// fleet is two processes on two tables.
type fleet struct {
	marks     bool
	tables    []*memory
	processes [2]*process
	owner     [adapters.Slots]*process
	term      [adapters.Slots]uint64
	ctx       *rapid.T
}

// process is one of them, with the claims that it has.
type process struct {
	*fleet
	e     *Engine[*memory]
	held  map[*memoryRow]*holding
	past  *adapters.Claim          // of a row that it has settled
	stray map[*memoryRow]time.Time // rows that a claim of which nothing is known has marked, and when
}

// holding is a claim.
type holding struct {
	m     *memory
	row   *adapters.Row
	term  uint64 // of its lane
	ended bool   // another process has put the row back, or may deliver its lane
	doubt bool   // a result may have been written
}

// TestG1_G2_G3_ClaimsAgainstTheModel: two processes claim, extend, settle, put back and lose rows of two tables in any order, with transactions of
// which nothing is known, while lanes change hands and rows are recovered. No row is held twice, and none is claimed before an earlier unfinished
// one of its group that its process does not hold. A claim has no more than it asks for, nothing that it leaves out, and nothing of lanes that are another process's. What
// is settled is what a process holds. In the end everything is delivered.
func TestG1_G2_G3_ClaimsAgainstTheModel(t *testing.T) {
	for name, of := range map[string]*layout.Queue{"marking": marking(), "remembering": remembering(t)} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(draws *rapid.T) {
				f := newFleet(t, draws, of)
				draws.Repeat(map[string]func(*rapid.T){
					"insert":  f.insert,
					"claim":   func(d *rapid.T) { f.one(d).claim(d) },
					"settle":  func(d *rapid.T) { f.one(d).settle(d) },
					"extend":  func(d *rapid.T) { f.one(d).extend(d) },
					"recover": func(d *rapid.T) { f.one(d).recover(d) },
					"move":    f.move,
				})
				f.drain()
			})
		})
	}
}

func newFleet(t *testing.T, draws *rapid.T, l *layout.Queue) *fleet {
	f := &fleet{marks: !l.Claimless(), ctx: draws, tables: []*memory{{name: "t", kind: "A"}, {name: "u", kind: "B"}}}
	for _, m := range f.tables {
		m.fenced = func(r *adapters.ClaimResult) bool { return r.Epoch != int64(f.term[r.Lane.Slot]) }
	}
	for i := range f.processes {
		f.processes[i] = &process{fleet: f, held: map[*memoryRow]*holding{}, stray: map[*memoryRow]time.Time{}, e: newMemory(t, l, func(b *Backend[*memory]) {
			b.PageRows = rapid.IntRange(1, 5).Draw(draws, "page")
			b.ClaimRows = rapid.IntRange(2, 50).Draw(draws, "rows of a claim")
		}, f.tables...)}
	}
	for slot := range f.owner {
		f.owner[slot] = f.processes[slot%2]
	}
	return f
}

func (f *fleet) one(d *rapid.T) *process { return f.processes[rapid.IntRange(0, 1).Draw(d, "process")] }

func (f *fleet) table(d *rapid.T) *memory { return f.tables[rapid.IntRange(0, 1).Draw(d, "table")] }

// Payloads of rows that no route matches until the end, and that are of a route without order: these may be left out, and end no prefix.
const (
	unwanted  = "unwanted"
	unordered = "unordered"
)

func (f *fleet) insert(d *rapid.T) {
	m, group := f.table(d), rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(d, "group")
	m.insert(group, len(m.rows)).payload = rapid.SampledFrom([]string{"{}", "{}", "{}", unwanted, unordered}).Draw(d, "payload")
	if group != "" && rapid.Bool().Draw(d, "newer") {
		m.newer = append(m.newer, "="+group)
	}
}

// move gives lanes to a process, or to the same one for another session. Where nothing is marked, what the former owner holds of them is lost.
func (f *fleet) move(d *rapid.T) {
	to := f.one(d)
	for slot := range f.owner {
		if rapid.IntRange(0, 3).Draw(d, "move") == 0 {
			f.owner[slot] = to
			f.term[slot]++
		}
	}
	for _, p := range f.processes {
		for _, h := range p.held {
			h.ended = h.ended || !f.marks && h.term != f.term[h.row.Slot]
		}
	}
}

// outcome is how a transaction ends.
func outcome(d *rapid.T) error {
	return rapid.SampledFrom([]error{nil, nil, errCut, errRefused}).Draw(d, "outcome")
}

// request asks for rows of the lanes that are the process's.
func (p *process) request(limit int) adapters.ClaimRequest {
	r := adapters.ClaimRequest{Limit: limit}
	for slot, owner := range p.owner {
		if owner == p {
			r.Slots, r.Terms = append(r.Slots, slot), append(r.Terms, p.term[slot])
		}
	}
	return r
}

func (p *process) claim(d *rapid.T) {
	r := p.request(rapid.IntRange(1, 6).Draw(d, "limit"))
	r.Match = func(row *adapters.Row) bool { return string(row.Payload) != unwanted }
	r.Later, r.Wants = func(*adapters.Row) bool { return false }, rapid.Uint64Range(0, 1).Draw(d, "wants")
	r.PerGroup = rapid.IntRange(0, 2).Draw(d, "per group")
	r.Except = rapid.SampledFrom([][]string{nil, {"A:a"}, {"A:b", "B:a"}}).Draw(d, "except")
	for _, m := range p.tables {
		for _, row := range m.rows {
			if (row.group == "" || row.payload == unordered) && rapid.Bool().Draw(d, "absent") {
				r.ExceptRows = append(r.ExceptRows, &adapters.Claim{Table: m.name, Key: row.key})
			}
		}
		m.takeErr = outcome(d)
		m.reading, m.between = p.elsewhere(d, m), p.elsewhere(d, m)
	}
	sound, before := true, [2]int64{}
	for i, m := range p.tables {
		sound, before[i] = sound && m.takeErr == nil, m.time
	}
	rows, err := p.e.Claim(p.ctx.Context(), r)
	if err != nil && len(rows) > 0 || len(rows) > r.Limit {
		d.Fatalf("%d of %d rows with %v", len(rows), r.Limit, err)
	}
	got := map[string]int{}
	for _, row := range rows {
		if got[row.Group]++; slices.Contains(r.Except, row.Group) || row.Group != "" && r.PerGroup > 0 && got[row.Group] > r.PerGroup {
			d.Fatalf("%d rows of group %q, with %d per group, but for %q", got[row.Group], row.Group, r.PerGroup, r.Except)
		}
	}
	p.take(d, r, rows)
	p.strays(d, sound, before)
}

// elsewhere has another system mark a row.
func (p *process) elsewhere(d *rapid.T, m *memory) func() {
	at := rapid.IntRange(0, 20).Draw(d, "row")
	return func() {
		if p.marks && at < len(m.rows) && m.rows[at].status == "waiting" {
			m.rows[at].status, m.rows[at].ours = "marked", false
		}
	}
}

// strays finds rows that a claim has marked and does not return. The next sound one puts them back.
func (p *process) strays(d *rapid.T, sound bool, before [2]int64) {
	for row, at := range p.stray {
		if sound && row.status == "marked" && row.ours && row.stamp.Equal(at) {
			d.Fatalf("%s stays marked", row.key)
		}
	}
	if sound {
		clear(p.stray)
	}
	for i, m := range p.tables {
		m.takeErr, m.reading, m.between = nil, nil, nil
		for _, row := range m.rows {
			if row.status == "marked" && row.ours && row.stamp.UnixMilli() > before[i] && p.held[row] == nil {
				p.stray[row] = row.stamp
			}
		}
	}
}

// take holds rows, and checks that each could be claimed.
func (p *process) take(d *rapid.T, r adapters.ClaimRequest, rows []*adapters.Row) {
	absent := func(m *memory, row *memoryRow) bool {
		return r.Match != nil && row.payload == unwanted || slices.ContainsFunc(r.ExceptRows, func(c *adapters.Claim) bool { return c.Table == m.name && c.Key == row.key })
	}
	for _, row := range rows {
		m := p.tables[slices.IndexFunc(p.tables, func(m *memory) bool { return m.name == row.Claim.Table })]
		at := m.row(row.ID)
		switch {
		case p.owner[row.Slot] != p:
			d.Fatalf("%s is of a lane that another process has", row.ID)
		case absent(m, at):
			d.Fatalf("%s was to be left out", row.ID)
		case p.held[at] != nil, p.other().holds(at):
			d.Fatalf("%s is held already", row.ID)
		}
		for _, before := range m.rows {
			if before.group != "" && before.group == at.group && before.created < at.created && before.unfinished() && before.payload != unordered && !absent(m, before) && !p.goesOn(before) {
				d.Fatalf("%s was claimed before %s, which is %s", row.ID, before.key, before.status)
			}
		}
		p.held[at] = &holding{m: m, row: row, term: p.term[row.Slot]}
	}
}

func (f *fleet) other(of *process) *process {
	if of == f.processes[0] {
		return f.processes[1]
	}
	return f.processes[0]
}

func (p *process) other() *process { return p.fleet.other(p) }

// holds reports whether a row is the process's, as far as the table is concerned.
func (p *process) holds(row *memoryRow) bool {
	h := p.held[row]
	return h != nil && !h.ended && !h.doubt
}

// goesOn reports whether what is behind a row may be claimed: the process has it, and has not been told that it is lost.
func (p *process) goesOn(row *memoryRow) bool {
	return p.held[row] != nil && (p.marks || !p.held[row].ended)
}

// some are held rows of one table, in order.
func (p *process) some(d *rapid.T) (m *memory, rows []*memoryRow) {
	m = p.table(d)
	for row, h := range p.held {
		if h.m == m {
			rows = append(rows, row)
		}
	}
	slices.SortFunc(rows, (*memoryRow).compare)
	return m, rows
}

// settle settles the first row, or puts rows of one group back.
func (p *process) settle(d *rapid.T) {
	m, rows := p.some(d)
	if len(rows) == 0 {
		return
	}
	to := rapid.SampledFrom([]outbox.Outcome{outbox.OutcomeDelivered, outbox.OutcomeDead, outbox.OutcomeRetry, outbox.OutcomeReleased}).Draw(d, "result")
	if to == outbox.OutcomeDelivered || to == outbox.OutcomeDead {
		rows = rows[:1]
	} else { // what is behind goes back with it
		rows = slices.DeleteFunc(rows, func(r *memoryRow) bool { return r.group != rows[0].group })
	}
	m.settleErr = outcome(d)
	sure := !slices.ContainsFunc(rows, func(r *memoryRow) bool { return p.held[r].doubt }) // nothing else was given before
	err := p.give(d, to, rows, false)
	if m.settleErr = nil; errors.Is(err, errCut) && rapid.Bool().Draw(d, "again") {
		if err = p.give(d, to, rows, sure); err != nil {
			d.Fatal(err)
		}
	}
}

// give settles rows: those are lost of which that is known, and no others. What was given before, and is written, is found.
func (p *process) give(d *rapid.T, to outbox.Outcome, rows []*memoryRow, again bool) error {
	var given []adapters.ClaimResult
	for _, row := range rows {
		h := p.held[row]
		given = append(given, adapters.ClaimResult{Claim: h.row.Claim, Outcome: to, Attempts: 1, Lane: adapters.LaneRef{Slot: h.row.Slot}, Epoch: int64(h.term)})
	}
	if p.past != nil {
		given = append(given, adapters.ClaimResult{Claim: p.past, Outcome: outbox.OutcomeDelivered})
	}
	lost, err := p.e.Settle(p.ctx.Context(), given)
	if p.past != nil && err == nil && !slices.Contains(lost, p.past) {
		d.Fatalf("%s was settled twice", p.past.Key)
	}
	want := map[outbox.Outcome]string{outbox.OutcomeDelivered: "done", outbox.OutcomeDead: "dead", outbox.OutcomeRetry: "waiting", outbox.OutcomeReleased: "waiting"}[to]
	for i, row := range rows {
		h := p.held[row]
		is := slices.Contains(lost, given[i].Claim)
		switch {
		case err != nil:
			h.doubt = h.doubt || errors.Is(err, errCut)
			continue
		case is && !h.ended && (!h.doubt || again):
			d.Fatalf("%s is lost, and was held", row.key)
		case !is && row.status != want:
			d.Fatalf("%s is %s, and was to be %s", row.key, row.status, want)
		}
		p.past = h.row.Claim
		delete(p.held, row)
	}
	return err
}

func (p *process) extend(d *rapid.T) {
	m, rows := p.some(d)
	var claims []*adapters.Claim
	for _, row := range rows {
		claims = append(claims, p.held[row].row.Claim)
	}
	m.renewErr = outcome(d)
	lost, err := p.e.Extend(p.ctx.Context(), claims)
	if m.renewErr = nil; err != nil && len(lost) > 0 {
		d.Fatalf("%d claims are lost with %v", len(lost), err)
	}
	for i, row := range rows {
		if slices.Contains(lost, claims[i]) {
			if h := p.held[row]; !h.ended && !h.doubt {
				d.Fatalf("%s is lost, and was held", row.key)
			}
			delete(p.held, row)
		}
	}
}

// recover puts rows back that the other process has marked.
func (p *process) recover(d *rapid.T) {
	if _, err := p.e.Recover(p.ctx.Context()); err != nil {
		d.Fatal(err)
	}
	for _, h := range p.other().held {
		h.ended = h.ended || p.marks
	}
}

// left are the rows that are unfinished.
func (f *fleet) left() (all []string) {
	for _, m := range f.tables {
		for _, r := range m.rows {
			if r.unfinished() {
				all = append(all, fmt.Sprintf("%s of %q in %s is %s", r.key, r.group, m.name, r.status))
			}
		}
	}
	return all
}

// drain delivers everything: one process ends, and the other one has all lanes.
func (f *fleet) drain() {
	last := f.processes[0]
	for slot := range f.owner {
		f.owner[slot] = last
		f.term[slot]++
	}
	f.processes[1].held = nil
	for _, h := range last.held {
		h.ended = h.ended || !f.marks
	}
	for deadline := time.Now().Add(2 * time.Second); ; {
		for _, m := range f.tables {
			for row, h := range last.held {
				if h.m == m {
					_ = last.give(f.ctx, outbox.OutcomeDelivered, []*memoryRow{row}, false)
				}
			}
		}
		if len(f.left()) == 0 {
			return
		}
		last.recover(f.ctx)
		if time.Now().After(deadline) {
			f.ctx.Fatal("rows are left: ", f.left())
		}
		r := last.request(100)
		rows, err := last.e.Claim(f.ctx.Context(), r)
		if err != nil {
			f.ctx.Fatal(err)
		}
		last.take(f.ctx, r, rows)
	}
}
