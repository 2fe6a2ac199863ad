package queuetable

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/mongodb/internal/mdb"
)

// Extend implements [adapters.Queue]. The time at which the documents were marked is
// renewed; the claims stay as they are.
func (q *Queue) Extend(ctx context.Context, claims []*adapters.Claim) (lost []*adapters.Claim, err error) {
	stamp := q.nextStamp()
	renewals, known := map[*table][]*renewal{}, map[stamps]stamps{} // which the claims share
	q.claims.Lock()
	rows, lost := q.claims.Extended(claims)
	for _, r := range rows {
		renewals[r.Table] = append(renewals[r.Table], &renewal{r, same{token: r.Hold.token, stamps: r.Hold.stamps}})
		if known[r.Hold.stamps] == "" { // until it is known to be written the document may have any
			known[r.Hold.stamps] = r.Hold.stamps + stampsOf(stamp)
		}
		r.Hold.stamps = known[r.Hold.stamps]
	}
	q.claims.Unlock()
	for t, of := range renewals {
		if err := q.renew(ctx, t, of, stamp); err != nil {
			return nil, wrap(t, "extend claims", mdb.Refused(err))
		}
	}
	q.claims.Lock()
	defer q.claims.Unlock()
	confirmed := stampsOf(stamp)
	for _, r := range rows {
		if r.Hold.stamps = confirmed; !r.Done {
			lost = append(lost, q.claims.End(r)...)
		}
	}
	return lost, nil
}

// renewal is a claim that is extended.
type renewal struct {
	*settled
	was same
}

// renew writes the new time into documents of a collection.
func (q *Queue) renew(ctx context.Context, t *table, of []*renewal, stamp time.Time) error {
	coll, err := t.collection(ctx)
	if err != nil {
		return err
	}
	keys, groups := bson.A{}, map[same]bson.A{}
	for _, r := range of {
		keys = append(keys, r.Hold.key)
		groups[r.was] = append(groups[r.was], r.Hold.key)
	}
	models := make([]mongo.WriteModel, 0, len(groups))
	for was, keys := range groups {
		models = append(models, mongo.NewUpdateManyModel().SetHint(q.keyIndex()).SetFilter(t.ours(keys, was)).
			SetUpdate(bson.D{{Key: "$set", Value: bson.D{{Key: q.fields.Claimed, Value: date(stamp)}}}}))
	}
	result, err := coll.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false))
	if err != nil {
		return err
	}
	if result.MatchedCount == int64(len(of)) {
		for _, r := range of {
			r.Done = true
		}
		return nil
	}
	cursor, err := coll.Find(ctx, bson.D{{Key: q.fields.Key, Value: in(keys)}, {Key: q.fields.Claimed, Value: date(stamp)}}, options.Find().SetHint(q.keyIndex()).SetProjection(q.slim()))
	if err != nil {
		return err
	}
	tokens := map[string]string{}
	err = each(ctx, cursor, func(raw bson.Raw) bool {
		if d := q.read(raw); d.status == adapters.RowProcessing {
			tokens[d.key] = d.token
		}
		return true
	})
	for _, r := range of {
		r.Done = tokens[r.Claim.Key] == r.Hold.token
	}
	return err
}

// Recover implements [adapters.Queue]. Documents that this queue holds are never
// recovered, however old their claims.
func (q *Queue) Recover(ctx context.Context) (recovered int, err error) {
	q.claiming.Lock()
	defer q.claiming.Unlock()
	if err := q.server.SyncClock(ctx); err != nil {
		return 0, wrap(q.tables[0], "recover stuck documents", err)
	}
	for _, t := range q.tables {
		n, err := t.recover(ctx)
		if recovered += n; err != nil {
			return recovered, wrap(t, "recover stuck documents", err)
		}
		if n > 0 {
			t.restart()
		}
	}
	return recovered, nil
}

// recoverStep is how many documents are put back at once.
const recoverStep = 1000

func (t *table) recover(ctx context.Context) (recovered int, err error) {
	f, st := &t.q.fields, &t.q.layout.Statuses
	coll, err := t.collection(ctx)
	if err != nil {
		return 0, err
	}
	stuck := bson.D{{Key: f.Status, Value: st.Processing}, {Key: f.Claimed, Value: bson.D{{Key: "$lt", Value: date(t.q.server.Clock().Add(-t.q.timeout))}}}}
	cursor, err := coll.Find(ctx, stuck, options.Find().SetProjection(bson.D{{Key: f.Key, Value: 1}}))
	if err != nil {
		return 0, err
	}
	var keys bson.A
	err = each(ctx, cursor, func(raw bson.Raw) bool {
		id := copied(raw.Lookup(f.Key))
		t.q.claims.Lock()
		defer t.q.claims.Unlock()
		if !t.Holds(keyOf(id)) {
			keys = append(keys, id)
		}
		return true
	})
	for len(keys) > 0 && err == nil {
		step := keys[:min(len(keys), recoverStep)]
		var result *mongo.UpdateResult
		result, err = coll.UpdateMany(ctx, append(bson.D{{Key: f.Key, Value: in(step)}}, stuck...),
			bson.D{{Key: "$set", Value: bson.D{{Key: f.Status, Value: st.Pending}}}, {Key: "$unset", Value: bson.D{{Key: ClaimField, Value: ""}}}}, options.UpdateMany().SetHint(t.q.keyIndex()))
		if err == nil {
			recovered += int(result.ModifiedCount)
		}
		keys = keys[len(step):]
	}
	return recovered, err
}

// Processing implements [adapters.OperatorQueue].
func (q *Queue) Processing(ctx context.Context, most int) (p adapters.Processing, err error) {
	for _, t := range q.tables {
		coll, err := t.collection(ctx)
		if err != nil {
			return adapters.Processing{}, wrap(t, "count documents", err)
		}
		cursor, err := coll.Find(ctx, bson.D{{Key: q.fields.Status, Value: q.layout.Statuses.Processing}, {Key: q.fields.Claimed, Value: bson.D{{Key: "$gt", Value: date(time.Time{})}}}},
			options.Find().SetProjection(bson.D{{Key: q.fields.Claimed, Value: 1}}).SetSort(bson.D{{Key: q.fields.Claimed, Value: 1}}).SetLimit(int64(most)+1))
		if err != nil {
			return adapters.Processing{}, wrap(t, "count documents", err)
		}
		n := 0
		err = each(ctx, cursor, func(raw bson.Raw) bool {
			if n++; n == 1 {
				p.Longest = max(p.Longest, q.server.Clock().Sub(raw.Lookup(q.fields.Claimed).Time()))
			}
			return true
		})
		if err != nil {
			return adapters.Processing{}, wrap(t, "count documents", err)
		}
		p.Rows += min(n, most)
		p.More = p.More || n > most
	}
	return p, nil
}
