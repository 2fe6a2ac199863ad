package queuetable

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/queue"
	"github.com/outriderhq/outrider/adapters/sqlite/internal/lite"
)

// Claim implements [adapters.Queue].
func (q *Queue) Claim(ctx context.Context, req adapters.ClaimRequest) ([]*adapters.Row, error) {
	q.claiming.Lock()
	defer q.claiming.Unlock()
	if err := q.file.Check(); err != nil {
		q.log.WarnContext(ctx, "what is known of the queue's tables is read again", "error", err)
		q.restart()
	}
	tables := q.claims.InTurn()
	c := newClaim(q, req)
	err := c.run(ctx, tables)
	if err != nil {
		q.restart() // what was chosen still waits
		return nil, wrap(tables[0].name, "claim", err)
	}
	return c.rows, nil
}

// restart forgets what is known of all tables. The caller has claiming.
func (q *Queue) restart() {
	for _, t := range q.tables {
		t.stale = true
		t.restart()
	}
}

// claim is one call of Claim.
type claim struct {
	queue.Request
	q     *Queue
	tx    *sql.Tx
	stmts map[string]*sql.Stmt
	stamp time.Time // of what it marks
	req   adapters.ClaimRequest
	began time.Time
	spent int  // what it has looked at, in rows
	cut   bool // it has not looked at everything that is ready

	rows     []*adapters.Row
	picked   []picked
	chosen   map[queue.RowKey]bool // the same
	bytes    int64
	full     bool // no more payload fits
	perGroup map[string]int
}

// picked is a row that is to be claimed.
type picked struct {
	table *table
	at    *entry
	key   any
	row   *adapters.Row
}

func newClaim(q *Queue, req adapters.ClaimRequest) *claim {
	return &claim{Request: queue.NewRequest(req), q: q, req: req, began: time.Now()}
}

// run looks at the tables in one transaction and marks what it has picked. A table with claims is read beforehand: the
// write lock is taken only when there may be something to mark.
func (c *claim) run(ctx context.Context, tables []*table) error {
	c.begin(tables)
	defer c.end(tables)
	writes := !tables[0].layout.Claimless()
	if writes {
		idle := true
		for _, t := range tables {
			if err := c.discover(ctx, c.q.db, t); err != nil {
				return err
			}
			idle = idle && len(t.ready) == 0
		}
		if idle {
			return nil
		}
	}
	tries := 0
	return lite.RetryBusy(ctx, func() (err error) {
		if tries++; tries > 1 {
			c.q.restart()
		}
		c.picked, c.chosen, c.bytes, c.full = nil, map[queue.RowKey]bool{}, 0, false
		c.perGroup, c.stmts = map[string]int{}, map[string]*sql.Stmt{}
		if c.tx, err = c.q.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: !writes}); err != nil {
			return err
		}
		defer func() { _ = c.tx.Rollback() }() // it is over, or the first error says more
		if err := c.serve(ctx, tables); err != nil {
			return err
		}
		if writes {
			if err := c.mark(ctx); err != nil {
				return err
			}
		}
		if err := c.tx.Commit(); err != nil {
			return err
		}
		c.keep()
		return nil
	})
}

// begin has the holds that end from now on remembered: what the transaction reads may be from before.
func (c *claim) begin(tables []*table) {
	for _, t := range tables {
		t.want(c)
	}
	c.q.claims.Lock()
	defer c.q.claims.Unlock()
	for _, t := range tables {
		t.Begin()
		for _, e := range t.returned {
			t.enterAgain(e)
		}
		t.returned = nil
		if t.newest != unread {
			t.deleted, t.newest = t.newest, unread
		}
	}
}

func (c *claim) end(tables []*table) {
	c.q.claims.Lock()
	defer c.q.claims.Unlock()
	for _, t := range tables {
		t.End(t.look(c))
	}
}

// discover finds entries. There are to be as many as rows are wanted, so that a long group keeps no other one waiting.
func (c *claim) discover(ctx context.Context, db querier, t *table) error {
	if _, err := t.describe(ctx, db); err != nil {
		return err
	}
	if err := t.readNews(ctx, db); err != nil {
		return err
	}
	t.unblock(time.Now())
	return t.readOn(ctx, db, max(c.req.Limit, 1), c)
}

// serve picks rows of the tables.
func (c *claim) serve(ctx context.Context, tables []*table) error {
	for _, t := range tables {
		if err := c.discover(ctx, c.tx, t); err != nil {
			return err
		}
	}
	got := func() int { return len(c.picked) }
	return queue.Share(len(tables), c.req.Limit, int(c.q.batch.Load()), got, func(i, most int) error {
		before, began := got(), time.Now()
		if err := c.rounds(ctx, tables[i], before+most); err != nil {
			return err
		}
		if got() == before {
			tables[i].scan.charge(time.Since(began))
		}
		return nil
	})
}

// rounds looks at a table's entries until so many rows are picked, in turns: each gets its share before
// one of them gets a second.
func (c *claim) rounds(ctx context.Context, t *table, most int) error {
	var later []*entry // that are not to be looked at again by this claim
	defer func() { t.ready = append(t.ready, later...) }()
	for looks := 0; len(t.ready) > 0 && c.room(most); {
		turn := t.ready
		t.ready = nil
		var more []*entry
		share := max((most-len(c.picked)+len(turn)-1)/len(turn), 1)
		for i, e := range turn {
			if c.cut = c.cut || looks > 0 && c.late(); c.cut || !c.room(most) {
				t.ready = slices.Concat(turn[i:], more, t.ready)
				return nil
			}
			if c.leftOut(e) {
				later = append(later, e)
				continue
			}
			looks++
			again, wait, err := c.visit(ctx, t, e, min(share, most-len(c.picked)))
			switch {
			case err != nil:
				return err
			case again:
				more = append(more, e)
			case wait:
				later = append(later, e)
			}
		}
		t.ready = append(more, t.ready...)
		if len(more) == 0 {
			if err := t.readOn(ctx, c.tx, most-len(c.picked), c); err != nil {
				return err
			}
		}
	}
	return nil
}

// leftOut reports whether the request takes nothing of an entry.
func (c *claim) leftOut(e *entry) bool {
	return e.group != "" && (c.Except[e.group] || c.allowed(e) <= 0)
}

// visit looks at an entry, and reports whether there may be more of it for this claim, or for another one.
func (c *claim) visit(ctx context.Context, t *table, e *entry, share int) (again, wait bool, err error) {
	c.spent += entryCost
	v := &visit{claim: c, table: t, at: e, share: min(share, c.allowed(e))}
	if err := v.run(ctx); err != nil {
		return false, false, err
	}
	ready := e.state == entryReady // neither blocked nor at its end
	return ready && !v.absent, ready && v.absent, nil
}

// room reports whether more rows may be picked.
func (c *claim) room(most int) bool { return len(c.picked) < most && !c.full }

// The rows that a claim looks at before it ends; the next one continues. An entry costs a statement.
const (
	claimRows = 10_000
	entryCost = 8
)

// late reports whether the claim has looked at so much that it ends.
func (c *claim) late() bool { return c.spent >= claimRows }

// allowed is how many further rows of a group the request allows.
func (c *claim) allowed(e *entry) int {
	if c.req.PerGroup <= 0 || e.alone {
		return max(c.req.Limit, 1)
	}
	return c.req.PerGroup - c.perGroup[e.id]
}

// prepared is a statement of the transaction.
func (c *claim) prepared(ctx context.Context, text string) (*sql.Stmt, error) {
	if s := c.stmts[text]; s != nil {
		return s, nil
	}
	s, err := c.tx.PrepareContext(ctx, text)
	if err == nil {
		c.stmts[text] = s
	}
	return s, err
}
