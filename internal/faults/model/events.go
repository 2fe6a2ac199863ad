package model

import "math/bits"

// The bounds of a world. Rows are numbered by their positions.
const (
	Rows   = 64
	Lanes  = 6
	Relays = 6
)

// Set is a set of rows.
type Set uint64

// Of is the set of these rows.
func Of(rows ...int) (s Set) {
	for _, r := range rows {
		s |= 1 << r
	}
	return s
}

// Has reports whether the row is in the set.
func (s Set) Has(row int) bool { return s&(1<<row) != 0 }

// Len counts the rows.
func (s Set) Len() int { return bits.OnesCount64(uint64(s)) }

// All yields the rows in ascending order.
func (s Set) All(yield func(int) bool) {
	for ; s != 0; s &= s - 1 {
		if !yield(bits.TrailingZeros64(uint64(s))) {
			return
		}
	}
}

func (s Set) list() (rows []int) {
	for r := range s.All {
		rows = append(rows, r)
	}
	return rows
}

// Plan says of each row to which group and lane it belongs. It does not change.
type Plan struct {
	Group [Rows]int // 0: none
	Lane  [Rows]int
}

// group is the set of the other rows of a row's group.
func (p *Plan) group(row int) (s Set) {
	for r := range Rows {
		if r != row && p.Group[row] != 0 && p.Group[r] == p.Group[row] {
			s |= Of(r)
		}
	}
	return s
}

// Kind is what happens.
type Kind string

// The kinds of events.
const (
	Insert    Kind = "insert"    // Row got its position, in a transaction that is open
	Commit    Kind = "commit"    // the transaction of Row commits: from now on it may be visible
	Committed Kind = "committed" // the publisher of Row knows that: what it inserts later is later
	Acquire   Kind = "acquire"   // Relay took Lane, with Epoch
	Send      Kind = "send"      // Relay gave Row to the receiver, which took it if OK
	Tried     Kind = "tried"     // Relay gave Row to the receiver with others, perhaps of its group, and it took none
	Settle    Kind = "settle"    // the owner of Epoch wrote into Lane that Covered is settled, Parked is parked and Dead is dead
	Drop      Kind = "drop"      // an operator skipped or purged Row
	Redrive   Kind = "redrive"   // an operator redrove Row, which is parked again
	Gone      Kind = "gone"      // Relay has crashed

	// Of queues alone.
	Claim Kind = "claim" // Relay claimed the rows of Covered
	Wrote Kind = "wrote" // Relay wrote of rows that are claimed: Covered is delivered, Parked waits again, Dead is dead
	Freed Kind = "freed" // Relay had the rows of Parked wait again, whose claims count as stuck
)

// table is what publishers have done.
type table struct {
	Inserted, Visible, Known Set // transactions begun, committed, known to be
	Before                   [Rows]Set
}

// publish is what an event of a publisher changes; false: it is none.
func (t *table) publish(p *Plan, e Event) bool {
	switch e.Kind {
	case Insert:
		t.Inserted |= Of(e.Row)
		t.Before[e.Row] = t.Known & p.group(e.Row)
	case Commit:
		t.Visible |= Of(e.Row)
	case Committed:
		t.Known |= Of(e.Row)
	default:
		return false
	}
	return true
}

// Event is one thing that happened.
type Event struct {
	Kind    Kind  `json:"kind"`
	Relay   int   `json:"relay,omitempty"`
	Lane    int   `json:"lane,omitempty"`
	Row     int   `json:"row,omitempty"`
	OK      bool  `json:"ok,omitempty"`
	Epoch   int64 `json:"epoch,omitempty"`
	Covered Set   `json:"covered,omitempty"`
	Parked  Set   `json:"parked,omitempty"`
	Dead    Set   `json:"dead,omitempty"`
}
