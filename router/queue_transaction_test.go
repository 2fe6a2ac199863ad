package router

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"pgregory.net/rapid"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
)

// oneDatabase is where a table and the destination are, so that a delivery commits with what settles it.
const oneDatabase = "one database"

// inTransactions has the route deliver so.
func (r *queueRun) inTransactions(route *Route) {
	route.Queue = &txQueue{memQueue: r.queue, run: r, random: rand.New(rand.NewPCG(r.seed, 5)), lost: map[*adapters.Claim]struct{}{}}
	route.Destination = &txLink{link: r.link, run: r}
}

// txQueue is an instance's use of a table whose results are committed with deliveries.
type txQueue struct {
	*memQueue
	run    *queueRun
	random *rand.Rand                   // guarded by the table's mutex, as is what follows
	lost   map[*adapters.Claim]struct{} // that Transact has returned
}

func (*txQueue) Database() string { return oneDatabase }

// Transact commits what deliver writes, which is what arrives, unless a claim is lost. Between the two somebody takes rows away at times,
// as a look for stuck rows does.
func (q *txQueue) Transact(ctx context.Context, results []adapters.ClaimResult, deliver func(context.Context, any) error) (lost []*adapters.Claim, err error) {
	var arrivals []arrived
	if err := deliver(ctx, &arrivals); err != nil {
		return nil, err
	}
	ran := false
	err = q.statement("Transact", nil, func() {
		ran = true
		lost = q.commit(results, arrivals)
	})
	switch {
	case err == nil || !ran || len(lost) > 0:
		q.mu.Lock()
		defer q.mu.Unlock()
		for _, c := range lost {
			q.lost[c] = struct{}{}
		}
		return lost, err
	default:
		return nil, adapters.ErrUnknown
	}
}

// commit is the end of a transaction. Claims that are lost roll it back.
func (q *txQueue) commit(results []adapters.ClaimResult, arrivals []arrived) (lost []*adapters.Claim) {
	take := q.random.IntN(6) == 0
	for _, r := range results {
		if _, ok := q.lost[r.Claim]; ok {
			q.complain("%s is delivered again with a claim that is known to be lost", r.Claim.Key)
		}
		row := q.live[r.Claim]
		if row == nil || r.Outcome != outbox.OutcomeDelivered {
			q.complain("%s is delivered with a claim that is not live, or as %v", r.Claim.Key, r.Outcome)
			continue
		}
		if take && row.token == r.Claim.Token && q.random.IntN(3) == 0 {
			row.status, row.token = "pending", ""
		}
		if row.token != r.Claim.Token {
			lost = append(lost, r.Claim)
		}
	}
	if len(lost) > 0 {
		return lost
	}
	for _, r := range results {
		row := q.live[r.Claim]
		row.status, row.token = "done", ""
		q.written[r.Claim] = true // what the chain says afterwards changes nothing
	}
	q.run.world.mu.Lock()
	defer q.run.world.mu.Unlock()
	q.run.world.arrivals = append(q.run.world.arrivals, arrivals...)
	return nil
}

// Extend leaves alone what a transaction has ended.
func (q *txQueue) Extend(ctx context.Context, claims []*adapters.Claim) ([]*adapters.Claim, error) {
	q.mu.Lock()
	claims = slices.DeleteFunc(slices.Clone(claims), func(c *adapters.Claim) bool { return q.written[c] })
	q.mu.Unlock()
	lost, err := q.memQueue.Extend(ctx, claims)
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.DeleteFunc(lost, func(c *adapters.Claim) bool { return q.written[c] }), err
}

// txLink is an instance's connection to the world, by way of the table's transactions.
type txLink struct {
	*link
	run *queueRun
}

func (*txLink) Database() string { return oneDatabase }

func (l *txLink) DeliverTx(ctx context.Context, tx any, _ string, batch []*message.Message) (committed func(), errs []error) {
	l.checkPaused(batch)
	errs, arrivals := l.attempt(ctx, batch, &l.cut)
	if slices.ContainsFunc(errs, func(err error) bool { return err != nil }) {
		return nil, errs
	}
	out := tx.(*[]arrived)
	*out = append(*out, arrivals...)
	return nil, nil
}

// checkPaused complains of messages whose group was paused long ago.
func (l *txLink) checkPaused(batch []*message.Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, msg := range batch {
		if since, ok := l.run.paused[msg.Metadata[outbox.MetaGroup]]; ok && time.Since(since) > heard {
			l.complain("%s is delivered %v after its group was paused", msg.UUID, time.Since(since))
		}
	}
}

// pauseGroups pauses every third group, beginning with one of them. A route that keeps no order has none.
func (r *queueRun) pauseGroups(first int) error {
	if r.order == adapters.OrderNone {
		return nil
	}
	for g := 1 + first%3; g <= r.groups; g += 3 {
		group := fmt.Sprintf("g%d", g)
		if _, err := r.state.Pause(context.Background(), adapters.Pause{Route: "jobs", Group: group}); err != nil {
			return err
		}
		r.world.mu.Lock()
		if _, ok := r.paused[group]; !ok {
			r.paused[group] = time.Now()
		}
		r.world.mu.Unlock()
	}
	return nil
}

// resumeGroups resumes all of them.
func (r *queueRun) resumeGroups() error {
	r.world.mu.Lock()
	groups := slices.Collect(maps.Keys(r.paused))
	clear(r.paused)
	r.world.mu.Unlock()
	for _, group := range groups {
		if _, err := r.state.Resume(context.Background(), adapters.Pause{Route: "jobs", Group: group}); err != nil {
			return err
		}
	}
	return nil
}

// Deliveries commit with what settles them, while rows are lost in their middle, groups are paused and resumed, and instances drain, crash and
// lose their lanes: each row that is done has arrived once, in the order of its group, and nothing of a group that is paused is delivered.
func TestG1_G2_G3_G13_LostClaimsInTransactionsBesideOperators(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		sc := drawQueueScenario(rt, "pause", "pause", "resume", "stolen", "restart")
		sc.transactions = true
		var err error
		synctest.Test(t, func(*testing.T) { err = newQueueRun(sc).all() })
		if err != nil {
			rt.Fatal(err)
		}
	})
}
