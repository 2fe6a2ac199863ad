package queuetable

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/queue"
	"github.com/outriderhq/outrider/adapters/mongodb/internal/mdb"
)

// Claim implements [adapters.Queue].
func (q *Queue) Claim(ctx context.Context, req adapters.ClaimRequest) ([]*adapters.Row, error) {
	q.claiming.Lock()
	defer q.claiming.Unlock()
	tables := q.claims.InTurn()
	c := newClaim(q, req)
	for _, t := range tables {
		if err := c.prepare(ctx, t); err != nil {
			return nil, wrap(t, "claim", err)
		}
	}
	c.begin(tables)
	defer c.end(tables)
	t, err := c.serve(ctx, tables)
	if err != nil && len(c.rows) == 0 {
		return nil, wrap(t, "claim", err)
	}
	if err != nil { // what was claimed is delivered; the next claim meets the error again if it lasts
		q.log.WarnContext(ctx, "a claim has ended early", "table", t.Name, "error", mdb.Plainly(err))
	}
	return c.rows, nil
}

// claim is one call of Claim.
type claim struct {
	queue.Request
	q     *Queue
	req   adapters.ClaimRequest
	began time.Time
	spent int // what it has looked at, in documents

	rows     []*adapters.Row
	bytes    int64
	full     bool // no more payload fits
	perGroup map[string]int
}

func newClaim(q *Queue, req adapters.ClaimRequest) *claim {
	return &claim{Request: queue.NewRequest(req), q: q, req: req, began: time.Now(), perGroup: map[string]int{}}
}

// prepare puts back what a claim that has failed may have marked, and forgets what is valid no more.
func (c *claim) prepare(ctx context.Context, t *table) (err error) {
	if t.coll, err = t.collection(ctx); err != nil {
		return err
	}
	for len(t.orphans) > 0 {
		if err := t.putBack(ctx, t.orphans[0]); err != nil {
			return err
		}
		t.orphans = t.orphans[1:]
	}
	if c.req.Wants != t.wants || c.Slots != t.slots || c.req.Wants == 0 {
		t.wants, t.slots = c.req.Wants, c.Slots
		t.restart()
	}
	return nil
}

// begin has the holds that end from now on remembered: what is read may be from before.
func (c *claim) begin(tables []*table) {
	c.q.claims.Lock()
	defer c.q.claims.Unlock()
	for _, t := range tables {
		t.Begin()
		t.round.due = time.Time{}
		if t.again {
			t.again, t.round.next = false, time.Time{}
		}
	}
}

func (c *claim) end(tables []*table) {
	c.q.claims.Lock()
	defer c.q.claims.Unlock()
	for _, t := range tables {
		look := adapters.Coverage{Since: t.round.whole, Next: t.round.next, Due: t.round.due, Unwanted: len(t.refused)}
		if t.round.running {
			look.Next = c.began
		}
		t.End(look)
	}
}

// serve claims from the collections. It returns the one at which it has failed.
func (c *claim) serve(ctx context.Context, tables []*table) (at *table, err error) {
	got := func() int { return len(c.rows) }
	err = queue.Share(len(tables), c.req.Limit, int(c.q.batch.Load()), got, func(i, most int) error {
		at = tables[i]
		return c.scan(ctx, at, got()+most)
	})
	return at, err
}

// claimDocuments is what a claim looks at before it ends, in documents; the next one continues. A reading costs as
// much as some.
const (
	claimDocuments = 10_000
	readingCost    = 8
)

// scan reads on in a collection until so many rows are claimed, or the claim has looked at everything or at enough.
func (c *claim) scan(ctx context.Context, t *table, most int) error {
	for c.room(most) && c.spent < claimDocuments && t.begin(c.began) {
		p, err := t.read(ctx, nil, most-len(c.rows))
		if err != nil {
			return err
		}
		if err := c.take(ctx, t, p, most); err != nil {
			return err
		}
		t.round.left = t.round.left || !c.room(most)
		t.moved(p.next)
	}
	return nil
}

// room reports whether more rows may be claimed.
func (c *claim) room(most int) bool { return len(c.rows) < most && !c.full }

// take claims from a page, and from what follows of its last group as long as nothing stands in the way.
func (c *claim) take(ctx context.Context, t *table, p page, most int) error {
	for {
		for _, b := range p.runs {
			c.spent += len(b.docs)
		}
		c.spent += readingCost
		visits := c.visits(t, p.runs)
		if err := c.turns(ctx, t, visits, most); err != nil {
			return err
		}
		if !p.cut || len(visits) == 0 || !c.room(most) || c.spent >= claimDocuments {
			return nil
		}
		last := visits[len(visits)-1]
		if last.run != p.runs[len(p.runs)-1] || !last.open() || c.allowed(last.run) <= 0 {
			return nil
		}
		next, err := t.read(ctx, last.run, 1)
		if err != nil {
			return err
		}
		p = next
	}
}

// turns claims from groups in turns: each gets its share before one of them gets a second.
func (c *claim) turns(ctx context.Context, t *table, visits []*visit, most int) error {
	for c.room(most) {
		var open []*visit
		for _, v := range visits {
			if v.more() {
				open = append(open, v)
			}
		}
		if len(open) == 0 {
			return nil
		}
		share := max((most-len(c.rows)+len(open)-1)/len(open), 1)
		left := most - len(c.rows)
		for _, v := range open {
			left -= v.choose(min(share, left, c.allowed(v.run)))
		}
		if err := c.claim(ctx, t, open); err != nil {
			return err
		}
	}
	return nil
}

// allowed is how many further rows of a group the request allows.
func (c *claim) allowed(b *run) int {
	if c.req.PerGroup <= 0 || b.alone {
		return max(c.req.Limit, 1)
	}
	return c.req.PerGroup - c.perGroup[b.group]
}

// claim fetches what visits have chosen, has the request match it, and marks what is wanted.
func (c *claim) claim(ctx context.Context, t *table, visits []*visit) error {
	wholes, all, err := c.fetch(ctx, t, visits)
	if err != nil {
		return err
	}
	var wanted []*pick
	for _, v := range visits {
		wanted = append(wanted, v.match(wholes, all)...)
	}
	c.full = c.full || !all && len(wanted) == 0 && c.bytes > 0
	if len(wanted) == 0 {
		return nil
	}
	return c.mark(ctx, t, wanted)
}

// fetch reads chosen documents with their payloads. all is false when it has ended before the last one, because
// no more payload fits; the first of a claim fits whatever its size.
func (c *claim) fetch(ctx context.Context, t *table, visits []*visit) (wholes map[string]whole, all bool, err error) {
	var keys, firsts bson.A
	for _, v := range visits {
		for i, at := range v.chosen {
			if keys = append(keys, v.run.docs[at].id); i == 0 {
				firsts = append(firsts, keys[len(keys)-1])
			}
		}
	}
	wholes, all, err = c.fetchKeys(ctx, t, keys)
	if err != nil || all || c.bytes > 0 {
		return wholes, all, err
	}
	for _, v := range visits { // whichever came first, the first one of a group has to be among them
		if len(v.chosen) > 0 && wholes[v.run.docs[v.chosen[0]].key].row != nil {
			return wholes, all, nil
		}
	}
	wholes, _, err = c.fetchKeys(ctx, t, firsts[:1])
	return wholes, false, err
}

// whole is a document with its payload, as a row.
type whole struct {
	row      *adapters.Row
	attempts int
}

func (c *claim) fetchKeys(ctx context.Context, t *table, keys bson.A) (wholes map[string]whole, all bool, err error) {
	wholes, all = map[string]whole{}, true
	if len(keys) == 0 {
		return wholes, true, nil
	}
	cursor, err := t.coll.Find(ctx, bson.D{{Key: c.q.fields.Key, Value: in(keys)}, c.q.waiting()}, options.Find().SetHint(c.q.keyIndex()).SetProjection(bson.D{{Key: ClaimField, Value: 0}}))
	if err != nil {
		return nil, false, err
	}
	bytes := c.bytes
	err = each(ctx, cursor, func(raw bson.Raw) bool {
		w := whole{row: t.decode(raw), attempts: c.q.attempts(raw)}
		wholes[keyOf(raw.Lookup(c.q.fields.Key))] = w
		bytes += int64(len(w.row.Payload))
		all = c.req.Bytes <= 0 || bytes < c.req.Bytes || len(wholes) == len(keys)
		return all
	})
	return wholes, all, err
}
