package queuetable

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// renew implements [queue.Backend].Renew.
func (q *Queue) renew(ctx context.Context, rows []*settled) error {
	stamp, byTable := q.nextStamp(), map[*table][]*settled{}
	for _, r := range rows {
		byTable[r.Table] = append(byTable[r.Table], r)
	}
	for t, rows := range byTable {
		if err := t.renew(ctx, rows, stamp); err != nil {
			return err
		}
	}
	return nil
}

// renew writes the new time into documents of a collection.
func (t *table) renew(ctx context.Context, rows []*settled, stamp time.Time) error {
	keys, groups := bson.A{}, map[stamps]bson.A{}
	for _, r := range rows {
		keys = append(keys, r.Lease.Key)
		was := stampsOf(r.Lease.Stamps()...)
		groups[was] = append(groups[was], r.Lease.Key)
	}
	t.q.Expect(stamp, rows...)
	models := make([]mongo.WriteModel, 0, len(groups))
	for was, keys := range groups {
		models = append(models, mongo.NewUpdateManyModel().SetHint(t.q.keyIndex()).SetFilter(t.ours(keys, was)).
			SetUpdate(bson.D{{Key: "$set", Value: bson.D{{Key: t.q.fields.Claimed, Value: date(stamp)}}}}))
	}
	n, err := t.write(ctx, models)
	if err != nil {
		return err
	}
	all, ours := n == len(rows), map[string]bool{}
	if !all {
		ours, err = t.keys(ctx, t.ours(keys, stampsOf(stamp)))
	}
	for _, r := range rows {
		r.Done = all || ours[r.Claim.Key]
	}
	return err
}

// Recover implements [adapters.Queue], by the server's clock.
func (q *Queue) Recover(ctx context.Context) (int, error) {
	if err := q.server.SyncClock(ctx); err != nil {
		return 0, wrap(q.tables[0].Name, "recover stuck documents", err)
	}
	return q.engine.Recover(ctx)
}

// recoverStep is how many documents are put back at once.
const recoverStep = 1000

// Recover implements [queue.Driver].
func (t *table) Recover(ctx context.Context, held func(key string) bool, _ int) (recovered int, err error) {
	f, st := &t.q.fields, &t.q.layout.Statuses
	stuck := bson.D{{Key: f.Status, Value: st.Processing}, {Key: f.Claimed, Value: bson.D{{Key: "$lt", Value: date(t.q.server.Clock().Add(-t.q.timeout))}}}}
	var keys bson.A
	err = t.each(ctx, stuck, options.Find().SetProjection(fields(f.Key)), func(raw bson.Raw) bool {
		if id := copied(raw.Lookup(f.Key)); !held(keyOf(id)) {
			keys = append(keys, id)
		}
		return true
	})
	for len(keys) > 0 && err == nil {
		step := keys[:min(len(keys), recoverStep)]
		var n int
		_, n, err = t.update(ctx, append(bson.D{{Key: f.Key, Value: in(step)}}, stuck...), t.putBack())
		recovered, keys = recovered+n, keys[len(step):]
	}
	return recovered, err
}

// Marked implements [queue.Driver].
func (t *table) Marked(ctx context.Context, most int) (n int, longest time.Duration, err error) {
	f := &t.q.fields
	dated := bson.D{{Key: f.Status, Value: t.q.layout.Statuses.Processing}, {Key: f.Claimed, Value: bson.D{{Key: "$gt", Value: date(time.Time{})}}}}
	err = t.each(ctx, dated, options.Find().SetProjection(fields(f.Claimed)).SetSort(fields(f.Claimed)).SetLimit(int64(most)+1), func(raw bson.Raw) bool {
		if n++; n == 1 {
			longest = t.q.server.Clock().Sub(raw.Lookup(f.Claimed).Time())
		}
		return true
	})
	return n, longest, err
}
