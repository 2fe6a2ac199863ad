package queuetable

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/queue"
)

func errNoTable(name string) error {
	return fmt.Errorf("mongodb queue: %q is none of its collections", name)
}

// Dead implements [adapters.OperatorQueue].
func (q *Queue) Dead(ctx context.Context, f adapters.DeadFilter) ([]adapters.DeadRow, error) {
	return queue.Pages(q.tables, f.After, errNoTable, func(t *table, after adapters.DeadKey) ([]adapters.DeadRow, error) {
		f.After = after
		page, err := t.dead(ctx, f)
		return page, wrap(t.Name, "look for dead documents", err)
	})
}

// dead reads a page.
func (t *table) dead(ctx context.Context, f adapters.DeadFilter) (page []adapters.DeadRow, err error) {
	filter, err := t.deadFilter(f)
	if err != nil {
		return nil, err
	}
	names := &t.q.fields
	limit := cmp.Or(f.Limit, adapters.DefaultParkedStep)
	if f.ID != "" {
		limit = 2 // and no id may name two
	}
	find := options.Find().SetSort(t.q.byAge()).SetLimit(int64(limit))
	if !f.Payload && !t.q.layout.TypeInPayload { // none is read
		find.SetProjection(bson.D{{Key: names.Payload, Value: 0}})
	}
	var ids []string
	bytes, found := 0, 0
	err = t.each(ctx, filter, find, func(raw bson.Raw) bool {
		row := t.decode(raw)
		bytes += len(row.Payload)
		if row.Err = nil; !f.Payload {
			row.Payload = nil
		}
		if name := written(raw.Lookup(names.Key)); f.ID != "" {
			found++
			if name != f.ID { // which names both, if one is the text and the other true, false or null
				ids = append(ids, name)
			}
		}
		page = append(page, adapters.DeadRow{At: t.keyedAt(raw), Row: *row, Attempts: t.q.attempts(raw), Error: text(raw.Lookup(names.Error)), Died: t.died(raw)})
		return bytes < queue.DeadPageBytes
	})
	if err == nil && found > 1 {
		return nil, fmt.Errorf("%w; give one of %s in its place", adapters.ErrAmbiguousID, strings.Join(ids, ", "))
	}
	return page, err
}

// keyedAt names a document and its position.
func (t *table) keyedAt(raw bson.Raw) adapters.DeadKey {
	f := &t.q.fields
	return adapters.DeadKey{Table: t.Name, Created: written(raw.Lookup(f.Created)), Key: keyOf(raw.Lookup(f.Key))}
}

// written is a value as JSON, which [value] reads.
func written(v bson.RawValue) string {
	if v.IsZero() {
		return "null"
	}
	return v.String()
}

func value(text string) (v bson.RawValue, err error) {
	var in struct {
		V bson.RawValue `bson:"v"`
	}
	err = bson.UnmarshalExtJSON([]byte(`{"v": `+text+`}`), false, &in)
	return in.V, err
}

// died is when a document was given up, as far as it says.
func (t *table) died(raw bson.Raw) time.Time {
	for _, field := range []string{t.q.fields.Claimed, t.q.fields.Created} {
		if at, ok := raw.Lookup(field).TimeOK(); ok {
			return at
		}
	}
	return time.Time{}
}

// deadFilter selects the documents of a page. Documents without a time come first.
func (t *table) deadFilter(f adapters.DeadFilter) (bson.D, error) {
	names := &t.q.fields
	filter := bson.D{{Key: names.Status, Value: t.q.layout.Statuses.Dead}}
	if f.ID != "" {
		filter = append(filter, bson.E{Key: names.Key, Value: in(idsOf(f.ID))})
	}
	if f.Group != "" {
		filter = append(filter, t.ofGroup(queue.GroupNames(t.Kind, f.Group)...))
	}
	if f.Error != "" {
		filter = append(filter, bson.E{Key: names.Error, Value: bson.Regex{Pattern: regexp.QuoteMeta(f.Error), Options: "i"}})
	}
	var and bson.A
	if !f.Before.IsZero() {
		before := bson.D{{Key: "$lt", Value: date(f.Before)}}
		and = append(and, bson.D{{Key: "$or", Value: bson.A{bson.D{{Key: names.Claimed, Value: before}}, bson.D{{Key: names.Claimed, Value: nil}, {Key: names.Created, Value: before}}}}})
	}
	if f.After.Table != "" {
		after, err := t.after(f.After)
		if err != nil {
			return nil, err
		}
		and = append(and, bson.D{after})
	}
	if and != nil {
		filter = append(filter, bson.E{Key: "$and", Value: and})
	}
	return filter, nil
}

// typeOrder has the codes of types in the order of their values, but for those that hardly anything writes. The first one comes after nothing.
var typeOrder = [][]int{{255}, {10}, {16, 18, 1, 19}, {2}, {3}, {4}, {5}, {7}, {8}, {9}, {17}, {11}, {127}}

// above are the conditions, of which one is met, that a field comes after a value. A comparison finds values of one type only.
func above(field string, v bson.RawValue) []bson.E {
	all := []bson.E{{Key: field, Value: bson.D{{Key: "$gt", Value: v}}}}
	at := slices.IndexFunc(typeOrder, func(codes []int) bool { return slices.Contains(codes, int(v.Type)) })
	if later := slices.Concat(typeOrder[at+1:]...); len(later) > 0 {
		all = append(all, bson.E{Key: field, Value: bson.D{{Key: "$type", Value: later}}})
	}
	return all
}

// after is the condition that a document comes after a position.
func (t *table) after(at adapters.DeadKey) (bson.E, error) {
	f := &t.q.fields
	created, err := value(at.Created)
	if err != nil {
		return bson.E{}, fmt.Errorf("%q is no place in collection %s", at.Created, t.Name)
	}
	or := bson.A{}
	for _, later := range above(f.Created, created) {
		or = append(or, bson.D{later})
	}
	for _, later := range above(f.Key, idOf(at.Key)) {
		or = append(or, bson.D{{Key: f.Created, Value: created}, later})
	}
	return bson.E{Key: "$or", Value: or}, nil
}

// ChangeDead implements [adapters.OperatorQueue]. There is no transaction: record is called first, with the number of the documents that are
// dead still, and nothing is changed when it returns an error. After an error of the database some may be changed.
func (q *Queue) ChangeDead(ctx context.Context, action adapters.ParkedAction, rows []adapters.DeadKey, record func(ctx context.Context, changed int) error) (changed int, err error) {
	if action != adapters.ParkedRedrive && action != adapters.ParkedPurge {
		return 0, fmt.Errorf("mongodb queue: dead documents can be redriven and purged; %q is neither", action)
	}
	filters := map[*table]bson.D{}
	for _, t := range q.tables {
		var keys bson.A
		for _, r := range rows {
			if r.Table == t.Name {
				keys = append(keys, idOf(r.Key))
			}
		}
		if keys != nil {
			filters[t] = bson.D{{Key: q.fields.Key, Value: in(keys)}, {Key: q.fields.Status, Value: q.layout.Statuses.Dead}}
		}
	}
	for _, r := range rows {
		if q.Driver(r.Table) == nil {
			return 0, errNoTable(r.Table)
		}
	}
	for t, filter := range filters {
		n, err := t.count(ctx, filter)
		if err != nil {
			return 0, wrap(t.Name, string(action), err)
		}
		changed += n
	}
	if changed == 0 {
		return 0, nil
	}
	if err := record(ctx, changed); err != nil {
		return 0, err
	}
	changed = 0
	for t, filter := range filters {
		n, err := t.changeDead(ctx, action, filter)
		if changed += n; err != nil {
			return changed, wrap(t.Name, string(action), err)
		}
	}
	return changed, nil
}

// changeDead makes documents wait as for their first attempt, or deletes them. The error, and when they were last claimed, stay.
func (t *table) changeDead(ctx context.Context, action adapters.ParkedAction, filter bson.D) (int, error) {
	if action == adapters.ParkedPurge {
		coll, err := t.collection(ctx)
		if err != nil {
			return 0, err
		}
		result, err := coll.DeleteMany(ctx, filter)
		if err != nil {
			return 0, err
		}
		return int(result.DeletedCount), nil
	}
	f := &t.q.fields
	_, n, err := t.update(ctx, filter, bson.D{{Key: "$set", Value: bson.D{{Key: f.Status, Value: t.q.layout.Statuses.Pending}, {Key: f.Attempts, Value: int32(0)}}}})
	return n, err
}

// CountDead implements [adapters.OperatorQueue].
func (q *Queue) CountDead(ctx context.Context, most int, kinds bool) (counts []adapters.DeadCount, more bool, err error) {
	for _, t := range q.tables {
		if kinds && q.layout.TypeInPayload {
			return nil, false, fmt.Errorf("collection %s: the type of a message is in its payload: %w", t.Name, errors.ErrUnsupported)
		}
		n, err := t.count(ctx, bson.D{{Key: q.fields.Status, Value: q.layout.Statuses.Dead}}, options.Count().SetLimit(int64(most)+1))
		if err != nil {
			return nil, false, wrap(t.Name, "count dead documents", err)
		}
		if n > 0 {
			counts = append(counts, adapters.DeadCount{Row: adapters.Row{Kind: t.Kind}, Rows: min(n, most)})
		}
		more = more || n > most
	}
	return counts, more, nil
}
