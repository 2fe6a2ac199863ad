package queuetable

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
)

// How a queue finds work. A claim serves groups, in turns, so that a long one
// does not keep the others waiting:
//
//   - The ring has the groups that are known to have unfinished rows. A claim
//     takes groups from its front and puts those back at its end that may have
//     more. Those that wait for a time leave it until then, see sleeping.go.
//   - When the ring has not enough for a claim, groups are discovered. With an
//     index of unfinished rows by age, the newest rows are read from the position
//     where the last such read ended, so that what was processed since is not
//     walked over again; dead index entries, which vacuum cannot remove as
//     long as an old snapshot is open, are all behind that position. Without it,
//     the names of groups with waiting rows are walked in the index that
//     begins with status and group.
//   - When the ring has enough, only the newest rows are looked at, from the end:
//     a group that is new waits for no backlog.
//   - Rows can become visible behind the position (transactions that committed
//     late, rows that another processor or an operator put back). So from time
//     to time everything unfinished is read again, from the beginning, a page at a
//     time; how often follows from what it costs.
//   - A group is read from the oldest row on that is known to be unfinished
//     in it, less a margin for transactions that are being committed. In a group
//     that comes into the ring, an older row may have become visible, behind the
//     position, since the group or everything was last read: it is read from the newest
//     row on that was known then, with the same margin.

// queueGroup is a group that is in the ring, or that held rows belong to.
type queueGroup struct {
	id      string // the name with a prefix, so that rows without a group differ from all names
	name    string // value of the column
	named   bool   // false: rows without a group only
	nulls   bool   // rows without a group belong to it
	key     string // group of its messages; "" for rows that want no order
	slot    int    // of the key; rows that want no order have slots of their own
	since   int64  // when its oldest unfinished row was created, as far as is known
	ringing bool   // in the ring

	looked time.Time // when the claim began that looked at it last; zero: it is not done with that
	due    time.Time // when something that could not be claimed then may be; zero: unknown
}

// ordered reports whether the group's rows wait for each other.
func (g *queueGroup) ordered() bool { return g.key != "" }

// unknownSince is the since of a group about which nothing is known.
const unknownSince = math.MinInt64

// queueMargin is how far behind the oldest known row of a group is looked for
// older ones: the longest time from a row's creation to the end of its transaction
// for which the next row of the group cannot overtake it. The price are the dead index
// entries of that time, as long as an old snapshot is open.
const queueMargin = 5 * time.Second

// from is where reading the group starts.
func (g *queueGroup) from() int64 {
	if g.since < math.MinInt64+queueMargin.Microseconds() || g.since == math.MaxInt64 { // of infinity
		return unknownSince
	}
	return g.since - queueMargin.Microseconds()
}

// queueTable is one table and what is known about it.
type queueTable struct {
	name   string // as configured
	kind   string
	sql    queueSQL       // its table is named with its schema after find
	claims kind           // how it is known what is claimed
	full   pgx.Identifier // so is this

	location  pg.Location
	described bool // the fields up to the next blank line have been found out
	text      queueText
	highest   rune // of errors; see [pg.Highest]
	aged      bool // unfinished rows can be read by age
	heldAged  bool // and those that are being processed come in that order too
	whole     bool // those of a group come in one order

	holds map[string]*hold // claims by key; guarded by the queue's lock
	held  map[string]int   // how many by group; guarded likewise

	ring  []*queueGroup
	known map[string]*queueGroup // of the ring, by id

	asleep sleepers // groups whose first row is not due

	// open are the lanes that are ours. Groups of others are not in the ring: those of
	// several instances would fill it. unread are those that have opened since everything
	// was last read; what is known of a group of theirs is from before, and may not be
	// all.
	open, unread [adapters.Slots]bool
	terms        [adapters.Slots]uint64 // of the lanes that are ours; see [adapters.ClaimRequest]

	newest position // up to here rows have been read by age
	latest position // of the newest row that was read; behind newest there may be others
	round  round    // the reading of everything

	contended int // so many claims are made row by row: others are at the table

	// readBefore is when the newest row was created that was known as the last reading of
	// everything by age began. Rows that became visible later may be older than that, by as
	// long as its transaction took.
	readBefore int64
	left       map[string]int64 // the same for groups that were read later and have left the ring, by id

	unmatched unmatched         // rows that no route matches
	state     adapters.Coverage // of the claims so far

	notesFrom string // the key of the last note that was looked at
}

// Is reports whether it is the table of a name.
func (t *queueTable) Is(name string) bool { return t.name == name }

// leftMost bounds left. The other groups are only read from further behind.
const leftMost = 100_000

// position is a row's position in the order of age.
type position struct {
	created int64
	key     string
	set     bool // false: before all rows
}

// since is when the position's row was created.
func (p position) since() int64 {
	if !p.set {
		return unknownSince
	}
	return p.created
}

func newQueueTable(table Table, layout *Layout) (*queueTable, error) {
	name, err := pg.ParseTable(table.Name)
	if err != nil {
		return nil, err
	}
	if strings.ContainsAny(table.Kind, ":\n") {
		return nil, fmt.Errorf("table %s: the kind %q must not contain a colon", table.Name, table.Kind)
	}
	t := &queueTable{
		name: table.Name, kind: table.Kind, location: pg.Location{Name: name}, full: name, sql: newSQL(name.Sanitize(), layout), claims: kindOf(layout),
		holds: map[string]*hold{}, held: map[string]int{},
		known: map[string]*queueGroup{}, asleep: sleepers{groups: map[string]*sleeper{}}, readBefore: unknownSince, left: map[string]int64{}, unmatched: newUnmatched(),
	}
	t.want(0, t.open, t.terms)
	return t, nil
}

// find looks the table up, once; what uses its statements calls it first.
func (t *queueTable) find(ctx context.Context, pool *pgxpool.Pool) error {
	return t.location.Find(ctx, pool, func(full pgx.Identifier) { t.full, t.sql.table = full, full.Sanitize() })
}

// group makes the group of a column's value, nil for NULL.
func (t *queueTable) group(value *string) *queueGroup {
	g := &queueGroup{since: unknownSince}
	standard := t.sql.layout.DefaultGroup
	switch {
	case value == nil && standard == "":
		g.id, g.nulls = "-", true
		return g
	case value == nil || *value == standard && standard != "":
		g.name, g.nulls = standard, true
	default:
		g.name = *value
	}
	g.named, g.id, g.key = true, "="+g.name, g.name
	if t.kind != "" {
		g.key = t.kind + ":" + g.name
	}
	g.slot = adapters.SlotOf(g.key, "")
	return g
}

// found notes that the group of a column's value has an unfinished row that was
// created then. It reports whether the group is new in the ring.
func (t *queueTable) found(value *string, created int64) bool {
	g := t.group(value)
	g.since = created
	return t.enter(g)
}

// enter puts a group into the ring, or lowers the since of the one there. Groups of
// lanes that are not ours stay out.
func (t *queueTable) enter(g *queueGroup) bool {
	if there := t.known[g.id]; there != nil {
		there.since = min(there.since, g.since)
		return false
	}
	if asleep := t.asleep.groups[g.id]; asleep != nil {
		if g.since > asleep.since {
			return false // it is behind the row that is not due
		}
		delete(t.asleep.groups, g.id)
	}
	if g.ordered() && !t.open[g.slot] {
		return false // it is found when its lane opens
	}
	fresh := *g // a held row's group must not change with the ring's
	fresh.ringing, fresh.looked, fresh.due = true, time.Time{}, time.Time{}
	if t.aged {
		seen := t.readBefore
		if t.unread[g.slot] {
			seen = unknownSince
		}
		if left, ok := t.left[g.id]; ok {
			seen = max(seen, left)
			delete(t.left, g.id)
		}
		fresh.since = min(g.since, seen)
	}
	t.known[g.id] = &fresh
	t.ring = append(t.ring, &fresh)
	return true
}

// enterFrom puts a group into the ring, to be read from a row on that was created
// then.
func (t *queueTable) enterFrom(group *queueGroup, created int64) {
	g := *group
	g.since = created
	t.enter(&g)
}

// leave takes a group out of the ring of which everything was seen that was
// visible when the newest known row was the one created at seen; rotate removes it
// from the list.
func (t *queueTable) leave(g *queueGroup, seen int64) {
	g.ringing = false
	if t.known[g.id] == g {
		delete(t.known, g.id)
	}
	if t.aged && len(t.left) < leftMost {
		t.left[g.id] = seen
	}
}

// roundEnded notes that everything was read.
func (t *queueTable) roundEnded(seen int64) {
	t.readBefore, t.unread = seen, [adapters.Slots]bool{}
	maps.DeleteFunc(t.left, func(_ string, left int64) bool { return left <= seen })
}

// rotate moves the groups that were served to the end of the ring and drops
// those that left.
func (t *queueTable) rotate(served map[string]bool) {
	var kept, last []*queueGroup
	for _, g := range t.ring {
		switch {
		case !g.ringing:
		case served[g.id]:
			last = append(last, g)
		default:
			kept = append(kept, g)
		}
	}
	t.ring = slices.Concat(kept, last)
}
