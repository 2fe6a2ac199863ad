package queuetable

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/outriderhq/outrider/adapters/internal/queue"
	"github.com/outriderhq/outrider/internal/failpoint"
)

// settle implements [queue.Backend].Settle. Each document is written by itself: after an error some results may be written. Given again, they count
// as written if the document is as the result wants it.
func (q *Queue) settle(ctx context.Context, rows []*settled) error {
	s := &settling{q: q, now: q.server.Clock(), byTable: map[*table][]*settled{}}
	for _, r := range rows {
		s.byTable[r.Table] = append(s.byTable[r.Table], r)
	}
	for i, t := range q.tables {
		if len(s.byTable[t]) == 0 {
			continue
		}
		if err := s.write(ctx, t); err != nil {
			return err
		}
		if i == 0 {
			failpoint.Hit(failpoint.InSettle)
		}
	}
	return nil
}

// settling is one call of Settle.
type settling struct {
	q       *Queue
	now     time.Time
	byTable map[*table][]*settled
}

// change has the values that an outcome writes. Documents of one change and one claim are written at once.
type change struct {
	status   string
	attempts int
	failure  string
}

// same is common to documents that are written at once.
type same struct {
	change
	stamps stamps
}

// change returns the values that an effect writes.
func (q *Queue) change(e *queue.Effect) change {
	st := &q.layout.Statuses
	c := change{status: st.Pending, attempts: e.Attempts}
	switch e.Change {
	case queue.Done:
		c.status = st.Done
	case queue.DeadLetter:
		c.status, c.failure = e.Status, e.Error
	case queue.Retry:
		if c.status = st.Again(); !q.layout.ErrorWhenDead {
			c.failure = e.Error
		}
	case queue.Release, queue.Leave:
	}
	return c
}

// write writes the results of a collection.
func (s *settling) write(ctx context.Context, t *table) error {
	groups, keys := map[same][]*settled{}, bson.A{}
	for _, r := range s.byTable[t] {
		is := same{s.q.change(&r.Effect), stampsOf(r.Lease.Stamps()...)}
		groups[is] = append(groups[is], r)
		keys = append(keys, r.Lease.Key)
	}
	models := make([]mongo.WriteModel, 0, len(groups))
	for is, rows := range groups {
		models = append(models, s.model(t, is, rows))
	}
	n, err := t.write(ctx, models)
	if err != nil {
		return err
	}
	if n < len(keys) {
		return s.compare(ctx, t, keys)
	}
	for _, r := range s.byTable[t] {
		r.Done = true
	}
	return nil
}

// model is the statement that writes one change.
func (s *settling) model(t *table, is same, rows []*settled) mongo.WriteModel {
	f, keys := &t.q.fields, make(bson.A, len(rows))
	for i, r := range rows {
		keys[i] = r.Lease.Key
	}
	set := bson.D{{Key: f.Status, Value: is.status}, {Key: f.Attempts, Value: int32(min(is.attempts, 1<<30))}}
	if is.status == t.q.layout.Statuses.Done {
		set = append(set, bson.E{Key: f.Done, Value: date(s.now)})
	}
	if is.failure != "" {
		set = append(set, bson.E{Key: f.Error, Value: is.failure})
	}
	return mongo.NewUpdateManyModel().SetHint(t.q.keyIndex()).SetFilter(t.ours(keys, is.stamps)).
		SetUpdate(bson.D{{Key: "$set", Value: set}, {Key: "$unset", Value: bson.D{{Key: ClaimField, Value: ""}}}})
}

// compare finds out which documents are as their outcomes want them: the rest are lost. Whether they have become so now, or
// by a former call that has ended with an error, makes no difference.
func (s *settling) compare(ctx context.Context, t *table, keys bson.A) error {
	f := &t.q.fields
	type state struct {
		status   string
		attempts int
	}
	states := map[string]state{}
	find := options.Find().SetHint(t.q.keyIndex()).SetProjection(fields(f.Key, f.Status, f.Attempts))
	err := t.each(ctx, bson.D{{Key: f.Key, Value: in(keys)}}, find, func(raw bson.Raw) bool {
		states[keyOf(raw.Lookup(f.Key))] = state{text(raw.Lookup(f.Status)), t.q.attempts(raw)}
		return true
	})
	for _, r := range s.byTable[t] {
		want := s.q.change(&r.Effect)
		is, there := states[r.Claim.Key]
		r.Done = is == state{want.status, want.attempts} || !there && want.status == s.q.layout.Statuses.Done && s.q.layout.OldIsDeleted
	}
	return err
}
