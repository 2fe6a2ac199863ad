package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Record is a line of a trace: what a trigger or a receiver has seen. Those of tables are written in the transaction that changes them, so
// what was rolled back is not there. Seq grows, and where one thing waits for another it has a higher one.
type Record struct {
	Seq  int64           `json:"seq"`
	XID  uint64          `json:"xid"`
	Kind string          `json:"kind"` // insert, commit, committed, send, tried, cursor, parked, status
	Doc  json.RawMessage `json:"doc"`
}

// Names of a trace, in the order in which they came up.
type names[K comparable] struct {
	of   []K
	most int
}

func (n *names[K]) number(name K) int {
	i := slices.Index(n.of, name)
	if i < 0 {
		i, n.of = len(n.of), append(n.of, name)
	}
	if n.most > 0 {
		i %= n.most
	}
	return i
}

// cursor is a row of outrider_cursor.
type cursor struct {
	Slot     int     `json:"slot"`
	Owner    string  `json:"owner"`
	Epoch    int64   `json:"epoch"`
	Revision int64   `json:"revision"`
	Position int64   `json:"position"`
	Snapshot string  `json:"snapshot"`
	Window   string  `json:"window_snapshot"`
	Paged    int64   `json:"paged"`
	Base     int64   `json:"base"`
	Beyond   []int64 `json:"beyond"`
}

// parked is a row of outrider_parked, after Op or, when it was deleted, before.
type parked struct {
	Op     string `json:"op"`
	Slot   int    `json:"slot"`
	ID     string `json:"event_id"`
	Status string `json:"status"`
}

// row is a row of the outbox.
type row struct {
	ID       string `json:"id"`
	Position int64  `json:"position"`
	Group    string `json:"group"`
	Slot     int    `json:"slot"`
	xid      uint64
}

// translation is a trace as the events of the rules.
type translation struct {
	plan   Plan
	events []Event
	rows   []row
	number map[string]int // of rows, by id
	slots  names[int]
	groups names[string]
	relays names[string]
	lanes  map[int]*translated // by slot
}

// translated is what the records so far say of a lane.
type translated struct {
	cursor
	parked, dead Set
}

func newTranslation() *translation {
	return &translation{number: map[string]int{}, relays: names[string]{most: Relays}, lanes: map[int]*translated{}, groups: names[string]{of: []string{""}}}
}

// Translate makes events of a trace. Rows that the trace does not show to be inserted are left out.
func Translate(trace []Record) (*Plan, []Event, error) {
	t := newTranslation()
	err := t.translate(trace, t.written)
	return &t.plan, t.events, err
}

// translate adds the events of all records; written adds those of what one transaction has changed.
func (t *translation) translate(trace []Record, written func([]Record) error) error {
	if err := t.readRows(trace); err != nil {
		return err
	}
	for i := range trace {
		r := &trace[i]
		if err := t.add(trace, i, written); err != nil {
			return fmt.Errorf("record %d, %s %s: %w", r.Seq, r.Kind, r.Doc, err)
		}
	}
	if len(t.slots.of) > Lanes {
		return fmt.Errorf("%d lanes, want %d at most", len(t.slots.of), Lanes)
	}
	return nil
}

func (t *translation) readRows(trace []Record) error {
	for i := range trace {
		if trace[i].Kind != string(Insert) {
			continue
		}
		r := row{xid: trace[i].XID}
		if err := json.Unmarshal(trace[i].Doc, &r); err != nil {
			return err
		}
		t.rows = append(t.rows, r)
	}
	if len(t.rows) > Rows {
		return fmt.Errorf("%d rows, want %d at most", len(t.rows), Rows)
	}
	slices.SortStableFunc(t.rows, func(a, b row) int { return int(a.Position - b.Position) })
	for i, r := range t.rows {
		t.number[r.ID] = i
		t.plan.Group[i], t.plan.Lane[i] = t.groups.number(r.Group), t.slots.number(r.Slot)
	}
	return nil
}

func (t *translation) add(trace []Record, i int, written func([]Record) error) error {
	switch r := &trace[i]; r.Kind {
	case "insert", "commit":
		var of row
		if err := json.Unmarshal(r.Doc, &of); err != nil {
			return err
		}
		t.each([]string{of.ID}, Event{Kind: Kind(r.Kind)})
	case "committed", "send", "tried":
		var of struct {
			IDs   []string `json:"ids"`
			Relay string   `json:"relay"`
			OK    bool     `json:"ok"`
		}
		if err := json.Unmarshal(r.Doc, &of); err != nil {
			return err
		}
		e := Event{Kind: Kind(r.Kind), OK: of.OK}
		if e.Kind != Committed {
			e.Relay = t.relays.number(of.Relay)
		}
		t.each(of.IDs, e)
	case "cursor", "parked", "status":
		later := func(o Record) bool {
			return o.XID == r.XID && (o.Kind == "cursor" || o.Kind == "parked" || o.Kind == "status")
		}
		if slices.ContainsFunc(trace[i+1:], later) {
			return nil
		}
		return written(slices.DeleteFunc(slices.Clone(trace[:i+1]), func(o Record) bool { return !later(o) }))
	default:
		return errors.New("an unknown kind")
	}
	return nil
}

// each adds an event for each of the rows.
func (t *translation) each(ids []string, e Event) {
	for _, id := range ids {
		if n, known := t.number[id]; known {
			e.Row = n
			t.events = append(t.events, e)
		}
	}
}

// written adds what one transaction has changed of the state.
func (t *translation) written(records []Record) error {
	settled := map[int]bool{} // by slot: the transaction is a settle
	for _, r := range records {
		if r.Kind != "cursor" {
			continue
		}
		var c cursor
		if err := json.Unmarshal(r.Doc, &c); err != nil {
			return err
		}
		if !slices.Contains(t.slots.of, c.Slot) {
			continue // no rows of the trace are there
		}
		l := t.lane(c.Slot)
		if c.Epoch != l.Epoch && c.Owner != "" {
			t.events = append(t.events, Event{Kind: Acquire, Relay: t.relays.number(c.Owner), Lane: t.slots.number(c.Slot), Epoch: c.Epoch})
		}
		settled[c.Slot] = settled[c.Slot] || c.Epoch == l.Epoch && c.Revision != l.Revision
		l.cursor = c
	}
	for _, r := range records {
		if r.Kind != "parked" {
			continue
		}
		var p parked
		if err := json.Unmarshal(r.Doc, &p); err != nil {
			return err
		}
		t.changed(&p, settled[p.Slot])
	}
	for slot := range settled {
		if !settled[slot] {
			continue
		}
		l := t.lanes[slot]
		covered, err := t.covered(&l.cursor)
		if err != nil {
			return err
		}
		t.events = append(t.events, Event{Kind: Settle, Lane: t.slots.number(slot), Epoch: l.Epoch, Covered: covered, Parked: l.parked, Dead: l.dead})
	}
	return nil
}

func (t *translation) lane(slot int) *translated {
	l := t.lanes[slot]
	if l == nil {
		l = &translated{}
		t.lanes[slot] = l
	}
	return l
}

// changed notes what became of a parked row. What no settle does is an operator's command.
func (t *translation) changed(p *parked, settled bool) {
	n, known := t.number[p.ID]
	if !known {
		return
	}
	l, one := t.lane(p.Slot), Of(n)
	wasDead := l.dead.Has(n)
	l.parked, l.dead = l.parked&^one, l.dead&^one
	switch {
	case p.Op == "DELETE" && !settled:
		t.events = append(t.events, Event{Kind: Drop, Row: n})
	case p.Op == "DELETE":
	case p.Status == "dead":
		l.dead |= one
	default:
		l.parked |= one
		if wasDead && !settled {
			t.events = append(t.events, Event{Kind: Redrive, Row: n})
		}
	}
}

// covered are the lane's rows that a cursor takes to be settled.
func (t *translation) covered(c *cursor) (s Set, err error) {
	for i, r := range t.rows {
		if r.Slot != c.Slot {
			continue
		}
		seen, err := visible(c.Snapshot, r.xid)
		if err != nil {
			return 0, err
		}
		late, err := visible(c.Window, r.xid)
		if err != nil {
			return 0, err
		}
		if slices.Contains(c.Beyond, r.Position) ||
			r.Position <= c.Position && (seen || c.Base != 0 && r.Position <= c.Base || c.Window != "" && late && r.Position <= c.Paged) {
			s |= Of(i)
		}
	}
	return s, nil
}

// visible reports whether a snapshot, xmin:xmax:xip,..., shows a transaction. An empty one shows none.
func visible(snapshot string, xid uint64) (bool, error) {
	if snapshot == "" {
		return false, nil
	}
	parts := strings.Split(snapshot, ":")
	if len(parts) != 3 {
		return false, fmt.Errorf("no snapshot: %q", snapshot)
	}
	most, err := strconv.ParseUint(parts[1], 10, 64)
	return err == nil && xid < most && !slices.Contains(strings.Split(parts[2], ","), strconv.FormatUint(xid, 10)), err
}

// Seen counts what makes a trace interesting: a run in which one never happens has not tested it.
func Seen(p *Plan, events []Event) map[string]int {
	w, seen := &Rules{}, map[string]int{}
	count := func(what string, n int) { seen[what] += n }
	for _, e := range events {
		l := w.Lanes[e.Lane]
		switch e.Kind {
		case Commit:
			if below := w.Lanes[p.Lane[e.Row]].Covered >> e.Row; below != 0 {
				count("late row below a settled one", 1)
			}
		case Acquire:
			if l.Epoch != 0 && l.Owner != e.Relay {
				count("lane taken from another", 1)
			}
			count("lane acquired with parked rows", min(1, l.Parked.Len()))
		case Send:
			if s := w.Sessions[e.Relay][p.Lane[e.Row]]; s.Epoch < w.Lanes[p.Lane[e.Row]].Epoch {
				count("sent by a former owner", 1)
			}
			if e.OK && w.Delivered.Has(e.Row) {
				count("delivered twice", 1)
			}
		case Settle:
			count("parked", (e.Parked &^ l.Parked).Len())
			count("delivered from parking", (l.Parked &^ (e.Parked | e.Dead)).Len())
			count("dead", (e.Dead &^ l.Dead).Len())
			if open := w.Inserted &^ w.Visible; open != 0 && e.Covered > open&-open {
				count("settled above an open transaction", 1)
			}
		case Drop, Redrive:
			count(string(e.Kind), 1)
		case Insert, Committed, Tried, Gone, Claim, Wrote, Freed:
		}
		if w.Do(p, e) != nil {
			return seen
		}
	}
	return seen
}
