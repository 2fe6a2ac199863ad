package demo

import "sync"

// Tally is the result of a demo, as counted by the receivers.
type Tally struct {
	Committed  int `json:"committed"`    // orders that the shop's database holds
	Delivered  int `json:"delivered"`    // different orders that arrived
	Duplicates int `json:"duplicates"`   // arrivals of an order that had arrived before
	OutOfOrder int `json:"out_of_order"` // first arrivals behind a later order of their account
	Lost       int `json:"lost"`         // committed orders that did not arrive
}

// Clean reports whether each committed order arrived once and in order, and
// nothing else arrived.
func (t Tally) Clean() bool {
	return t.Duplicates == 0 && t.OutOfOrder == 0 && t.Lost == 0 && t.Delivered == t.Committed
}

// Phantoms returns the number of arrived orders that the shop never committed.
func (t Tally) Phantoms() int { return t.Delivered - (t.Committed - t.Lost) }

// order is a sale of the shop and the payload of its message. The receivers check
// the payload only, not the metadata that the relay adds.
type order struct {
	ID       int64  `json:"id"` // a new one for each attempt, so that one which was rolled back is known
	Customer string `json:"customer"`
	Account  string `json:"account"` // the group
	Number   int    `json:"number"`  // of the account's orders, from 1
	Item     string `json:"item"`
}

// ledger records arrivals. The receivers share one, so that an order that arrives at
// two of them counts as a duplicate.
type ledger struct {
	mu         sync.Mutex
	arrived    map[int64]struct{}
	latest     map[string]int // highest number by account
	byRegion   map[string]int
	duplicates int
	outOfOrder int
}

func newLedger() *ledger {
	return &ledger{arrived: map[int64]struct{}{}, latest: map[string]int{}, byRegion: map[string]int{}}
}

// receive records the orders of one request, in their order.
func (l *ledger) receive(region string, orders []order) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range orders {
		if _, ok := l.arrived[o.ID]; ok {
			l.duplicates++
			continue
		}
		l.arrived[o.ID] = struct{}{}
		l.byRegion[region]++
		if o.Number < l.latest[o.Account] {
			l.outOfOrder++
			continue
		}
		l.latest[o.Account] = o.Number
	}
}

// delivered is the number of different orders that arrived.
func (l *ledger) delivered() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.arrived)
}

// deliveredTo is [ledger.delivered] of one region.
func (l *ledger) deliveredTo(region string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.byRegion[region]
}

// tally compares the ledger with the ids that the shop committed.
func (l *ledger) tally(committed []int64) Tally {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := Tally{
		Committed: len(committed), Delivered: len(l.arrived),
		Duplicates: l.duplicates, OutOfOrder: l.outOfOrder,
	}
	for _, id := range committed {
		if _, ok := l.arrived[id]; !ok {
			t.Lost++
		}
	}
	return t
}
