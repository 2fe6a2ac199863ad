package queuetable

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/outriderhq/outrider/adapters"
)

// lockedLimit is for how long a step waits for a document that an open transaction has changed. MongoDB ends such a transaction after a
// minute.
const lockedLimit = 2 * time.Second

// CheckRetention implements [adapters.OperatorQueue].
func (q *Queue) CheckRetention(ctx context.Context, _ adapters.Retention) error {
	var errs []error
	for _, t := range q.tables {
		coll, err := t.collection(ctx)
		if err == nil {
			err = q.mayRemove(ctx, coll)
		}
		errs = append(errs, wrap(t.Name, "check retention", err))
	}
	return errors.Join(errs...)
}

// mayRemove tries to remove no document.
func (q *Queue) mayRemove(ctx context.Context, coll *mongo.Collection) error {
	there, err := indexesOf(ctx, coll)
	if err != nil {
		return err
	}
	for _, i := range q.indexes() {
		if i.name == doneIndex && !i.in(there) {
			return fmt.Errorf("the index %s is missing, and each look for old documents would read all that were delivered; `outrider init` creates it", i.name)
		}
	}
	_, err = coll.DeleteMany(ctx, bson.D{{Key: q.fields.Key, Value: in(bson.A{})}})
	return err
}

// RetainDelivered implements [adapters.OperatorQueue].
func (q *Queue) RetainDelivered(ctx context.Context, r adapters.Retention) (sum adapters.Retained, err error) {
	for _, t := range q.tables {
		step, err := t.retain(ctx, r)
		if err != nil {
			return sum, wrap(t.Name, "remove old documents", err)
		}
		sum = sum.And(step)
	}
	return sum, nil
}

func (t *table) retain(ctx context.Context, r adapters.Retention) (step adapters.Retained, err error) {
	f, now := &t.q.fields, t.q.server.Clock()
	delivered := bson.E{Key: f.Status, Value: t.q.layout.Statuses.Done}
	old := bson.D{delivered, {Key: f.Created, Value: bson.D{{Key: "$lte", Value: date(now.Add(-r.Keep))}}}}
	if r.DryRun {
		var n int
		n, err = t.count(ctx, old)
		step.Rows = int64(n)
	} else {
		step, err = t.removeOld(ctx, old, cmp.Or(r.Batch, adapters.DefaultRetainBatch))
	}
	if err != nil || step.More {
		return step, err
	}
	first, err := t.one(ctx, bson.D{delivered, {Key: f.Created, Value: bson.D{{Key: "$type", Value: "date"}}}}, options.FindOne().SetSort(fields(f.Created)))
	if at, ok := first.Lookup(f.Created).TimeOK(); ok {
		step.Oldest = max(now.Sub(at), 0)
	}
	return step, err
}

// removeOld deletes a batch of documents by their keys, each by itself.
func (t *table) removeOld(ctx context.Context, old bson.D, limit int) (step adapters.Retained, err error) {
	f := &t.q.fields
	keys := bson.A{}
	err = t.each(ctx, old, options.Find().SetSort(fields(f.Created)).SetLimit(int64(limit)).SetProjection(fields(f.Key)), func(raw bson.Raw) bool {
		keys = append(keys, copied(raw.Lookup(f.Key)))
		return true
	})
	if err != nil || len(keys) == 0 {
		return step, err
	}
	coll, err := t.collection(ctx)
	if err != nil {
		return step, err
	}
	brief, cancel := context.WithTimeout(ctx, lockedLimit)
	defer cancel()
	result, err := coll.DeleteMany(brief, bson.D{{Key: f.Key, Value: in(keys)}, {Key: f.Status, Value: t.q.layout.Statuses.Done}}, options.DeleteMany().SetHint(t.q.keyIndex()))
	if err != nil && brief.Err() != nil && ctx.Err() == nil {
		return adapters.Retained{Busy: true}, nil
	}
	if err != nil {
		return step, err
	}
	return adapters.Retained{Rows: result.DeletedCount, More: len(keys) == limit}, nil
}
