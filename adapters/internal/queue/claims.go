package queue

import (
	"slices"
	"strconv"
	"sync"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/layout"
)

// Table is a table of a queue that embeds its [Held].
type Table[H Hold] interface {
	comparable
	Is(name string) bool
	Own() *Held[H] // [Held.Own]
}

// Claims are the claims of a queue that have not been settled. The lock guards them, and what the tables hold.
type Claims[T Table[H], H Hold] struct {
	mu     sync.Mutex
	layout *layout.Queue
	tables []T
	first  int   // the table that is served first, in turn
	tokens int64 // that holds have had
}

// Lock locks the claims.
func (c *Claims[T, H]) Lock() { c.mu.Lock() }

// Unlock unlocks them.
func (c *Claims[T, H]) Unlock() { c.mu.Unlock() }

// Init sets the layout and the tables.
func (c *Claims[T, H]) Init(l *layout.Queue, tables []T) { c.layout, c.tables = l, tables }

// Settled is a row that is settled, or whose claim is extended.
type Settled[T Table[H], H Hold] struct {
	*adapters.ClaimResult
	Effect Effect
	Table  T
	Hold   H
	Done   bool // it is written
	Locked bool // another session has locked the row, which is as its claim says
}

// InTurn returns the tables; another one is the first of them each time.
func (c *Claims[T, H]) InTurn() []T {
	c.Lock()
	defer c.Unlock()
	tables := slices.Concat(c.tables[c.first:], c.tables[:c.first])
	c.first = (c.first + 1) % len(c.tables)
	return tables
}

// Token returns a token that no other hold has. The caller has the lock.
func (c *Claims[T, H]) Token() string {
	c.tokens++
	return strconv.FormatInt(c.tokens, 10)
}

// Table returns a table by its name as configured; the zero value: it is none of the queue's.
func (c *Claims[T, H]) Table(name string) (t T) {
	if i := slices.IndexFunc(c.tables, func(t T) bool { return t.Is(name) }); i >= 0 {
		return c.tables[i]
	}
	return t
}

// Looked says how much has been looked at of all tables.
func (c *Claims[T, H]) Coverage() adapters.Coverage {
	c.Lock()
	defer c.Unlock()
	looks := make([]adapters.Coverage, len(c.tables))
	for i, t := range c.tables {
		looks[i] = t.Own().look
	}
	return Looked(looks...)
}

// Held are the results of claims that are held; the others are lost. The caller has the lock.
func (c *Claims[T, H]) Held(results []adapters.ClaimResult) (rows []*Settled[T, H], lost []*adapters.Claim) {
	var none T
	for i := range results {
		r := &results[i]
		if t := c.Table(r.Claim.Table); t != none {
			if hold, ok := t.Own().holds[r.Claim.Key]; ok && hold.Token() == r.Claim.Token {
				rows = append(rows, &Settled[T, H]{ClaimResult: r, Effect: EffectOf(c.layout, r), Table: t, Hold: hold})
				continue
			}
		}
		lost = append(lost, r.Claim)
	}
	return rows, lost
}

// Extended are the claims that are held, as if they were released; the others are lost. The caller has the lock.
func (c *Claims[T, H]) Extended(claims []*adapters.Claim) (rows []*Settled[T, H], lost []*adapters.Claim) {
	results := make([]adapters.ClaimResult, len(claims))
	for i, claim := range claims {
		results[i].Claim = claim
	}
	return c.Held(results)
}

// Settle is End for all but rows that are locked: their holds stay, and the error names them. The caller has the lock.
func (c *Claims[T, H]) Settle(rows []*Settled[T, H]) (lost []*adapters.Claim, err error) {
	locked := &adapters.LockedError{}
	for _, r := range rows {
		if r.Locked {
			locked.Claims, err = append(locked.Claims, r.Claim), locked
			continue
		}
		lost = append(lost, c.End(r)...)
	}
	return lost, err
}

// End ends the holds of rows, and returns the claims of those that were not written: they are lost. The caller has the lock.
func (c *Claims[T, H]) End(rows ...*Settled[T, H]) (lost []*adapters.Claim) {
	for _, r := range rows {
		if !r.Done {
			lost = append(lost, r.Claim)
		}
		r.Table.Own().drop(r.Claim.Key, r.Hold, r.Done && r.Effect.Ends())
	}
	return lost
}
