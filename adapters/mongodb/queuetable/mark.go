package queuetable

import (
	"context"
	"crypto/rand"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// mark marks documents as being processed, and keeps of each group what is a prefix of what was picked. The others go back.
func (c *claim) mark(ctx context.Context, t *table, wanted []*pick) error {
	f, stamp, token := &c.q.fields, c.q.nextStamp(), rand.Text()
	keys := make(bson.A, len(wanted))
	for i, p := range wanted {
		keys[i] = p.doc.id
	}
	result, err := t.coll.UpdateMany(ctx, bson.D{{Key: f.Key, Value: in(keys)}, c.q.waiting()}, bson.D{{Key: "$set", Value: bson.D{
		{Key: f.Status, Value: c.q.layout.Statuses.Processing}, {Key: f.Claimed, Value: date(stamp)}, {Key: ClaimField, Value: token}}}}, options.UpdateMany().SetHint(c.q.keyIndex()))
	if err != nil { // it may have been carried out
		t.orphans = append(t.orphans, orphan{token, keys})
		return err
	}
	missing := map[string]bool{}
	if result.MatchedCount < int64(len(wanted)) {
		if missing, err = t.unmarked(ctx, wanted, token, keys); err != nil {
			t.orphans = append(t.orphans, orphan{token, keys})
			return err
		}
	}
	kept, back := prefixes(wanted, missing)
	c.keep(t, kept, &hold{token: token, stamps: stampsOf(stamp)})
	if len(back) == 0 {
		return nil
	}
	if err := t.putBack(ctx, orphan{token, back}); err != nil {
		t.orphans = append(t.orphans, orphan{token, back})
		return err
	}
	return nil
}

// unmarked are the documents that another process has taken in the meantime.
func (t *table) unmarked(ctx context.Context, wanted []*pick, token string, keys bson.A) (missing map[string]bool, err error) {
	f := &t.q.fields
	missing = map[string]bool{}
	for _, p := range wanted {
		missing[p.doc.key] = true
	}
	cursor, err := t.coll.Find(ctx, bson.D{{Key: f.Key, Value: in(keys)}, {Key: ClaimField, Value: token}, {Key: f.Status, Value: t.q.layout.Statuses.Processing}},
		options.Find().SetHint(t.q.keyIndex()).SetProjection(bson.D{{Key: f.Key, Value: 1}}))
	if err != nil {
		return nil, err
	}
	err = each(ctx, cursor, func(raw bson.Raw) bool {
		delete(missing, keyOf(raw.Lookup(f.Key)))
		return true
	})
	return missing, err
}

// prefixes splits what was picked: kept is of each group what comes before the first that is missing, back the keys of what
// comes after it. The picks of a group are in their order.
func prefixes(wanted []*pick, missing map[string]bool) (kept []*pick, back bson.A) {
	cut := map[*visit]bool{}
	for _, p := range wanted {
		switch {
		case missing[p.doc.key]:
			cut[p.visit] = true
			p.visit.block(time.Now().Add(blockedPause))
		case cut[p.visit]:
			back = append(back, p.doc.id)
		default:
			kept = append(kept, p)
		}
	}
	return kept, back
}

// putBack has documents wait again that a claim has marked, as far as it has.
func (t *table) putBack(ctx context.Context, o orphan) error {
	f, st := &t.q.fields, &t.q.layout.Statuses
	_, err := t.coll.UpdateMany(ctx, bson.D{{Key: f.Key, Value: in(o.keys)}, {Key: f.Status, Value: st.Processing}, {Key: ClaimField, Value: o.token}},
		bson.D{{Key: "$set", Value: bson.D{{Key: f.Status, Value: st.Pending}}}, {Key: "$unset", Value: bson.D{{Key: ClaimField, Value: ""}}}}, options.UpdateMany().SetHint(t.q.keyIndex()))
	return err
}

// keep remembers what was claimed.
func (c *claim) keep(t *table, kept []*pick, as *hold) {
	c.q.claims.Lock()
	defer c.q.claims.Unlock()
	for _, p := range kept {
		h := *as
		h.key = p.doc.id
		p.row.Claim.Token = h.token
		t.Keep(p.doc.key, &h)
		c.perGroup[p.visit.run.group]++
		c.rows = append(c.rows, p.row)
	}
	t.round.got += len(kept)
}
