package queuetable

import (
	"cmp"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/queue"
)

// entry is a group that may have rows to be claimed, or a single row that is in no order.
type entry struct {
	id    string // identifies groups and rows
	value any    // the group's name, or the row's key as the column has it
	alone bool   // it is a row
	group string // of its messages; "" for a row
	slot  int

	state entryState
	due   time.Time // blocked until then
	from  place     // everything up to here is ours, or no route matches it; not set: look at the whole group
}

// entryState is where an entry is.
type entryState uint8

const (
	entryIdle    entryState = iota // nothing more is known to wait
	entryReady                     // in the list of those that are looked at
	entryBlocked                   // until its time
)

// place is a row's place in the order of its group.
type place struct {
	created, key any
	set          bool
}

// covers reports whether a row is at the place or before it, as far as can be told here: what is not
// comparable counts as before it.
func (p place) covers(created, key any) bool {
	if !p.set {
		return false
	}
	if c, ok := compare(created, p.created); !ok || c != 0 {
		return !ok || c < 0
	}
	c, ok := compare(key, p.key)
	return !ok || c <= 0
}

// compare compares two values of one type as SQLite does.
func compare(a, b any) (order int, ok bool) {
	switch a := a.(type) {
	case string:
		if b, same := b.(string); same {
			return cmp.Compare(a, b), true
		}
	case int64:
		if b, same := b.(int64); same {
			return cmp.Compare(a, b), true
		}
	}
	return 0, false
}

// restart forgets what is known of the rows: everything is read again.
func (t *table) restart() {
	t.entries, t.ready, t.tidyAt = map[string]*entry{}, nil, 1024
	t.read, t.refused, t.scan = unread, false, scan{running: true, whole: t.scan.whole}
}

// want takes note of what a claim wants. If it may want other rows, everything is read again.
func (t *table) want(c *claim) {
	if c.req.Wants == t.wants && c.Slots == t.slots && c.Terms == t.terms && (c.req.Wants != 0 || !t.refused) {
		return
	}
	t.wants, t.slots, t.terms = c.req.Wants, c.Slots, c.Terms
	t.restart()
}

// groupEntry is the entry of a group's name; nil: its lane is not ours.
func (t *table) groupEntry(name string) *entry {
	e := &entry{id: "=" + name, value: name, group: queue.GroupOf(t.Table, name)}
	return t.known(e, adapters.SlotOf(e.group, ""))
}

// rowEntry is the entry of a row that is in no order.
func (t *table) rowEntry(key any) *entry {
	id := t.sql().KeyText(key)
	return t.known(&entry{id: "." + id, value: key, alone: true}, adapters.SlotOf("", id))
}

func (t *table) known(e *entry, slot int) *entry {
	if had := t.entries[e.id]; had != nil {
		return had
	}
	if e.slot = slot; !t.slots[slot] {
		return nil
	}
	if len(t.entries) >= t.tidyAt {
		t.tidy()
	}
	t.entries[e.id] = e
	return e
}

// enter has an entry looked at. One that is blocked stays so.
func (t *table) enter(e *entry) {
	if e != nil && e.state == entryIdle {
		e.state = entryReady
		t.ready = append(t.ready, e)
	}
}

// enterDue has an entry looked at also if it is blocked: others may have changed when its row is due.
func (t *table) enterDue(e *entry) {
	if e != nil && e.state == entryBlocked {
		e.state = entryIdle
	}
	t.enter(e)
}

// enterAgain has the entry of a hold that has ended looked at, from its beginning.
func (t *table) enterAgain(e *entry) {
	fresh := *e // it may be from before all was forgotten
	fresh.state = entryIdle
	if e = t.known(&fresh, e.slot); e != nil {
		e.from = place{}
		if e.state == entryBlocked {
			e.state = entryIdle
		}
		t.enter(e)
	}
}

// block puts an entry off.
func (t *table) block(e *entry, until time.Time) {
	e.state, e.due = entryBlocked, until
	t.blockedUntil = queue.Sooner(t.blockedUntil, until)
}

// unblock has entries looked at whose time has come.
func (t *table) unblock(now time.Time) {
	if t.blockedUntil.IsZero() || t.blockedUntil.After(now) {
		return
	}
	var next time.Time
	for _, e := range t.entries {
		switch {
		case e.state != entryBlocked:
		case !e.due.After(now):
			e.state = entryIdle
			t.enter(e)
		case next.IsZero() || e.due.Before(next):
			next = e.due
		}
	}
	t.blockedUntil = next
}

// entriesMost bounds the entries that wait for their time; the scan finds again what is forgotten.
const entriesMost = 100_000

// tidy drops entries that mean nothing any more: nothing of them is known to wait, and nothing of them is held.
func (t *table) tidy() {
	for id, e := range t.entries {
		if e.state == entryIdle && t.rows[e.id] == 0 || e.state == entryBlocked && len(t.entries) > entriesMost {
			delete(t.entries, id)
		}
	}
	t.tidyAt = max(2*len(t.entries), 1024)
}
