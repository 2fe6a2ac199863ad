package queuetable

import (
	"context"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/queue"
)

const (
	// pageDocuments is how many documents a page has.
	pageDocuments = 500

	// claimDocuments is how many a claim reads before it ends without result; the next one continues.
	claimDocuments = 10_000
)

// The index is read in three sections, because comparisons find values of one type only: documents of the default group and those without one, those of
// the other groups, by name, and those whose group is no text, which are dead ([queue.Alone]). The last section is read with the end of the second,
// because no index has only those documents: a claim that finds enough before does not read all that waits. These begin the ids of groups.
const (
	inDefault = "/"
	inGroup   = "="
)

var _ queue.Driver = (*table)(nil)

// id is the id of a document's group.
func (t *table) id(group bson.RawValue) string {
	name, ok := t.nameOf(group)
	switch {
	case !ok:
		return queue.Alone
	case name == t.q.layout.DefaultGroup:
		return inDefault + name
	}
	return inGroup + name
}

// Group implements [queue.Driver].
func (t *table) Group(id string) string { return queue.GroupOf(t.Table, id[1:]) }

// Page implements [queue.Driver].
func (t *table) Page(ctx context.Context, from queue.Position) (page queue.Page, err error) {
	docs, err := t.find(ctx, t.filter(from), t.order(from))
	if err != nil {
		return page, err
	}
	if page.Next = t.next(from, docs); page.Next == (queue.Position{}) {
		wrong, err := t.find(ctx, bson.D{t.q.unfinished(), {Key: t.q.fields.Group, Value: notText}}, t.order(from))
		if err != nil {
			return page, err
		}
		docs, page.End = append(docs, wrong...), true
	}
	for i := range docs {
		d := &docs[i]
		id := t.id(d.name)
		if d.status != adapters.RowWaiting && d.status != adapters.RowProcessing || !from.In && !first(from) && strings.HasPrefix(id, inDefault) {
			continue // it is none of the queue's any more, or in another section
		}
		page.Entries = append(page.Entries, queue.Entry{ID: id, Created: d.created, Key: d.id, Text: d.key, Slot: adapters.SlotOf("", textOf(d.id)),
			Marked: d.status == adapters.RowProcessing, Ours: d.token == t.q.token, Stamp: d.claimed})
	}
	return page, nil
}

// first reports whether a page is the first one of the index. It is also the next one after a document whose group is no text.
func first(from queue.Position) bool { return from.ID == "" || from.ID == queue.Alone }

// next is the position behind a page; the zero value is the end. An array is found among the texts in it and has no place of its own: the page ends
// with the last text, and what comes after that is read again.
func (t *table) next(from queue.Position, docs []document) queue.Position {
	full := len(docs) == pageDocuments
	for len(docs) > 0 && t.id(docs[len(docs)-1].name) == queue.Alone {
		docs = docs[:len(docs)-1]
	}
	switch {
	case full && len(docs) > 0:
		last := &docs[len(docs)-1]
		id := t.id(last.name)
		if !from.In && !first(from) && strings.HasPrefix(id, inDefault) { // by its name: the first section has the rest of it
			return queue.Position{ID: inGroup + t.q.layout.DefaultGroup}
		}
		return queue.Position{ID: id, In: true, Created: last.created, Key: last.id}
	case first(from):
		return queue.Position{ID: inDefault + t.q.layout.DefaultGroup}
	case from.In:
		return queue.Position{ID: from.ID}
	}
	return queue.Position{}
}

// filter selects the documents of a page.
func (t *table) filter(from queue.Position) bson.D {
	f, filter := &t.q.fields, bson.D{t.q.unfinished()}
	switch {
	case first(from):
		return append(filter, t.ofGroup(t.q.layout.DefaultGroup))
	case from.In && from.Created == nil:
		return append(filter, t.ofGroup(from.ID[1:]))
	case from.In:
		return append(filter, t.ofGroup(from.ID[1:]), bson.E{Key: f.Created, Value: bson.D{{Key: "$gte", Value: from.Created}}}, behind(f.Created, f.Key, from.Created, from.Key))
	case strings.HasPrefix(from.ID, inDefault):
		return append(filter, bson.E{Key: f.Group, Value: bson.D{{Key: "$gte", Value: ""}}})
	}
	return append(filter, bson.E{Key: f.Group, Value: bson.D{{Key: "$gt", Value: from.ID[1:]}}})
}

// notText is the condition that a group is no text and not missing. An array is found by its elements where one of them is either.
var notText = bson.D{{Key: "$exists", Value: true}, {Key: "$not", Value: bson.D{{Key: "$type", Value: bson.A{"string", "null"}}}}}

// ofGroup is the condition that a document is of one of the groups.
func (t *table) ofGroup(names ...string) bson.E {
	values := bson.A{}
	for _, name := range names {
		if values = append(values, name); name == t.q.layout.DefaultGroup {
			values = append(values, nil)
		}
	}
	if len(values) == 1 {
		return bson.E{Key: t.q.fields.Group, Value: values[0]}
	}
	return bson.E{Key: t.q.fields.Group, Value: in(values)}
}

// behind is the condition that a document comes after another one in the order of its group.
func behind(created, key string, at, id any) bson.E {
	return bson.E{Key: "$or", Value: bson.A{
		bson.D{{Key: created, Value: bson.D{{Key: "$gt", Value: at}}}},
		bson.D{{Key: created, Value: at}, {Key: key, Value: bson.D{{Key: "$gt", Value: id}}}},
	}}
}

// order is that of groups, and of documents within each.
func (t *table) order(from queue.Position) bson.D {
	if from.In || first(from) {
		return t.q.byAge()
	}
	return append(fields(t.q.fields.Group), t.q.byAge()...)
}

// find reads documents along the index of groups.
func (t *table) find(ctx context.Context, filter, order bson.D) (docs []document, err error) {
	find := options.Find().SetSort(order).SetLimit(pageDocuments).SetBatchSize(pageDocuments).SetHint(groupIndex).SetProjection(t.q.slim())
	err = t.each(ctx, filter, find, func(raw bson.Raw) bool {
		docs = append(docs, t.q.read(raw))
		return true
	})
	return docs, err
}

// Newer implements [queue.Driver]: no field says when a document became visible.
func (t *table) Newer(context.Context) ([]string, error) { return nil, nil }

// Take implements [queue.Driver]. There is no transaction: documents are marked one by one, and the engine puts back what is no prefix.
func (t *table) Take(_ context.Context, f func(queue.Taker) error) error { return f(t) }

// Read implements [queue.Taker]; so do Fill and Mark.
func (t *table) Read(ctx context.Context, chosen []*queue.Entry, bytes int64) (map[string]queue.Found, error) {
	keys := make(bson.A, len(chosen))
	for i, e := range chosen {
		keys[i] = e.Key
	}
	found := make(map[string]queue.Found, len(chosen))
	err := t.each(ctx, t.chosen(keys), options.Find().SetHint(t.q.keyIndex()).SetProjection(bson.D{{Key: ClaimField, Value: 0}}), func(raw bson.Raw) bool {
		f := t.found(raw)
		size := int64(len(f.Row.Payload))
		if bytes -= size; bytes < 0 {
			f.Row, f.Left = nil, size
		}
		found[keyOf(raw.Lookup(t.q.fields.Key))] = f
		return true
	})
	return found, err
}

// chosen is the condition that documents with these keys still wait.
func (t *table) chosen(keys bson.A) bson.D {
	return bson.D{{Key: t.q.fields.Key, Value: in(keys)}, t.q.waiting()}
}

func (t *table) found(raw bson.Raw) queue.Found {
	return queue.Found{ID: t.id(raw.Lookup(t.q.fields.Group)), Attempts: t.q.attempts(raw), Row: t.decode(raw)}
}

func (t *table) Fill(ctx context.Context, e *queue.Entry, f *queue.Found) (bool, error) {
	raw, err := t.one(ctx, t.chosen(bson.A{e.Key}), options.FindOne().SetHint(t.q.keyIndex()))
	if raw != nil {
		*f = t.found(raw)
	}
	return raw != nil, err
}

func (t *table) Mark(ctx context.Context, rows []queue.Picked) (stamp time.Time, missing map[string]bool, err error) {
	f, keys := &t.q.fields, make(bson.A, len(rows))
	stamp = t.q.nextStamp()
	for i, r := range rows {
		keys[i] = r.Key
	}
	n, _, err := t.update(ctx, t.chosen(keys), bson.D{{Key: "$set", Value: bson.D{
		{Key: f.Status, Value: t.q.layout.Statuses.Processing}, {Key: f.Claimed, Value: date(stamp)}, {Key: ClaimField, Value: t.q.token}}}})
	if err != nil || n == len(rows) {
		return stamp, nil, err
	}
	ours, err := t.keys(ctx, t.ours(keys, stampsOf(stamp)))
	missing = map[string]bool{}
	for _, r := range rows {
		if !ours[r.Text] {
			missing[r.Text] = true
		}
	}
	return stamp, missing, err
}

// ours is the condition that documents are marked as leases say.
func (t *table) ours(keys bson.A, at stamps) bson.D {
	f := &t.q.fields
	return bson.D{{Key: f.Key, Value: in(keys)}, {Key: f.Status, Value: t.q.layout.Statuses.Processing}, {Key: ClaimField, Value: t.q.token}, {Key: f.Claimed, Value: in(at.dates())}}
}

// Unmark implements [queue.Driver].
func (t *table) Unmark(ctx context.Context, keys []any, stamp time.Time) (locked []any, err error) {
	_, _, err = t.update(ctx, t.ours(keys, stampsOf(stamp)), t.putBack())
	return nil, err
}

// putBack has documents wait again.
func (t *table) putBack() bson.D {
	return bson.D{{Key: "$set", Value: bson.D{{Key: t.q.fields.Status, Value: t.q.layout.Statuses.Pending}}}, {Key: "$unset", Value: bson.D{{Key: ClaimField, Value: ""}}}}
}
