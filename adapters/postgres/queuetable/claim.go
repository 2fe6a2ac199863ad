package queuetable

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/queue"
)

const (
	// queueTurn is the most rows that a group gets in its turn while others wait:
	// about what one request to a receiver carries.
	queueTurn = 100

	// lookGroups bounds the groups of one look.
	lookGroups = 1024
)

// Claim implements [adapters.Queue]. It takes a look at what is unfinished in
// some groups, decides, and claims the chosen rows by a statement that cuts each
// group at the first row that was locked or changed in between.
//
// When a table fails after another one's rows were claimed, these are returned
// and the error is logged.
func (q *Queue) Claim(ctx context.Context, req adapters.ClaimRequest) ([]*adapters.Row, error) {
	q.claiming.Lock()
	defer q.claiming.Unlock()
	if err := q.findUnknown(ctx, false); err != nil {
		return nil, queueError(q.tables[0].name, "find what an earlier claim took", err)
	}
	q.findLost()
	c := q.newClaim(req)
	err := c.serveAll(ctx, q.inTurn())
	if err == nil {
		q.guardBesideClaims(ctx)
	}
	if err != nil && len(c.rows) > 0 {
		q.log.WarnContext(ctx, "claiming from one table failed; what others gave goes on", "error", err)
		return c.rows, nil
	}
	return c.rows, err
}

// inTurn returns the tables with the least work first, and equal ones by turns.
func (q *Queue) inTurn() []*queueTable {
	tables := slices.Concat(q.tables[q.first:], q.tables[:q.first])
	q.first = (q.first + 1) % len(q.tables)
	slices.SortStableFunc(tables, func(a, b *queueTable) int { return cmp.Compare(len(a.ring), len(b.ring)) })
	return tables
}

// claim is one call of Claim.
type claim struct {
	queue.Request
	q    *Queue
	req  adapters.ClaimRequest
	turn int

	rows     []*adapters.Row
	bytes    int64
	full     bool // no more payload fits
	perGroup map[string]int
}

func (q *Queue) newClaim(req adapters.ClaimRequest) *claim {
	return &claim{Request: queue.NewRequest(req), q: q, req: req, perGroup: map[string]int{}, turn: min(max(req.Limit/4, 1), queueTurn)}
}

// serveAll gives every table an even share of what is left. Should there be
// room in the end, those tables get it whose share was not enough.
func (c *claim) serveAll(ctx context.Context, tables []*queueTable) error {
	var more []*queueTable
	batch := int(c.q.batch.Load())
	taken := map[*queueTable]int{}
	for _, pass := range []*[]*queueTable{&tables, &more} {
		for i, t := range *pass {
			remaining, before := len(*pass)-i, len(c.rows)
			share := (c.req.Limit - before + remaining - 1) / remaining
			if err := c.serve(ctx, t, min(share, batch-taken[t])); err != nil {
				return queueError(t.name, "claim", err)
			}
			taken[t] += len(c.rows) - before
			if pass == &tables && taken[t] >= share {
				more = append(more, t)
			}
		}
	}
	return nil
}

// serve claims up to so many rows of a table.
func (c *claim) serve(ctx context.Context, t *queueTable, want int) (err error) {
	if want <= 0 || c.full {
		return nil
	}
	if err := t.claims.prepare(ctx, c.q, t); err != nil {
		return err
	}
	if err := c.q.describe(ctx, t); err != nil {
		return err
	}
	t.want(c.req.Wants, c.Slots, c.Terms)
	t.wakeDue(time.Now())
	found := &discovery{q: c.q, table: t, began: time.Now()}
	if err := found.upkeep(ctx); err != nil {
		return err
	}
	s := &tableClaim{claim: c, table: t, want: want, began: found.began, served: map[string]bool{}}
	defer func() {
		if err != nil { // what was chosen still waits, or its state is unknown
			for _, p := range s.picked {
				t.enterFrom(p.visit.group, p.created)
			}
		}
		t.rotate(s.served)
	}()
	if err := s.lookAround(ctx, found); err != nil {
		return err
	}
	if len(s.picked) == 0 {
		s.cover()
		return nil
	}
	return t.claims.take(ctx, s)
}

// lookAround picks rows, group by group, until there are enough, nothing is left
// or enough was done.
func (s *tableClaim) lookAround(ctx context.Context, found *discovery) error {
	for groups := (s.want + s.turn - 1) / s.turn; s.room(); groups = min(2*groups, lookGroups) {
		if found.tired() {
			groups = 0
			s.suspend()
		}
		visits := s.next(groups)
		if len(visits) == 0 && groups > 0 {
			fresh, err := found.more(ctx)
			if err != nil {
				return err
			}
			if fresh {
				continue
			}
			visits = s.second()
		}
		if len(visits) == 0 {
			return nil
		}
		found.steps++
		if err := s.look(ctx, visits); err != nil {
			return err
		}
	}
	return nil
}

// eligible reports whether the request wants rows of the group.
func (c *claim) eligible(g *queueGroup) bool {
	return g.ringing && (!g.ordered() || c.Slots[g.slot] && !c.Except[g.key])
}
