package queuetable

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/queue"
)

// allUnfinished is the condition that a document is unfinished, by the statuses of unfinished documents.
func (q *Queue) allUnfinished() bson.E {
	return q.unfinishedOnly(append(q.layout.Statuses.Waiting(), q.layout.Statuses.Processing)...)
}

// byAge is the order of age.
func (q *Queue) byAge() bson.D {
	return fields(q.fields.Created, q.fields.Key)
}

// Unfinished implements [adapters.OperatorQueue].
func (q *Queue) Unfinished(ctx context.Context, most int) (b adapters.Backlog, err error) {
	for _, t := range q.tables {
		if err := t.unfinished(ctx, most, &b); err != nil {
			return adapters.Backlog{}, wrap(t.Name, "count documents", err)
		}
	}
	if b.Rows > most {
		b.Rows, b.More = most, true
	}
	return b, nil
}

func (t *table) unfinished(ctx context.Context, most int, b *adapters.Backlog) error {
	q := t.q
	n, err := t.count(ctx, bson.D{q.allUnfinished()}, options.Count().SetLimit(int64(most)+1).SetHint(ageIndex))
	if err != nil || n == 0 {
		return err
	}
	b.Rows += n
	raw, err := t.one(ctx, bson.D{q.allUnfinished()}, options.FindOne().SetSort(q.byAge()).SetHint(ageIndex).SetProjection(fields(q.fields.Created)))
	if at, ok := raw.Lookup(q.fields.Created).TimeOK(); ok && (b.Oldest.IsZero() || at.Before(b.Oldest)) {
		b.Oldest = at
	}
	return err
}

// WaitingByAge implements [adapters.OperatorQueue].
func (q *Queue) WaitingByAge(ctx context.Context, after adapters.DeadKey, most int) ([]adapters.WaitingRow, error) {
	return queue.Pages(q.tables, after, errNoTable, func(t *table, after adapters.DeadKey) ([]adapters.WaitingRow, error) {
		page, err := t.waitingByAge(ctx, after, most)
		return page, wrap(t.Name, "look for documents that wait", err)
	})
}

func (t *table) waitingByAge(ctx context.Context, after adapters.DeadKey, most int) (page []adapters.WaitingRow, err error) {
	q, f := t.q, &t.q.fields
	filter := bson.D{q.unfinishedOnly(q.layout.Statuses.Waiting()...)}
	if after.Table != "" {
		behind, err := t.after(after)
		if err != nil {
			return nil, err
		}
		filter = append(filter, behind)
	}
	find := options.Find().SetSort(q.byAge()).SetLimit(int64(most)).SetHint(ageIndex).SetProjection(fields(f.Key, f.Created, f.Status, f.Attempts))
	err = t.each(ctx, filter, find, func(raw bson.Raw) bool {
		attempts := q.attempts(raw)
		page = append(page, adapters.WaitingRow{At: t.keyedAt(raw), Attempts: attempts, Version: fmt.Sprint(text(raw.Lookup(f.Status)), " ", attempts)})
		return true
	})
	return page, err
}

// IsFirst implements [adapters.OperatorQueue].
func (q *Queue) IsFirst(ctx context.Context, at adapters.DeadKey) (first bool, err error) {
	t := q.Driver(at.Table)
	if t == nil {
		return false, errNoTable(at.Table)
	}
	first, err = t.isFirst(ctx, at.Key)
	return first, wrap(t.Name, "look at a document that waits", err)
}

func (t *table) isFirst(ctx context.Context, key string) (bool, error) {
	q, f := t.q, &t.q.fields
	raw, err := t.one(ctx, bson.D{{Key: f.Key, Value: idOf(key)}, q.waiting()}, options.FindOne().SetHint(q.keyIndex()).SetProjection(q.slim()))
	if raw == nil {
		return false, err
	}
	d := q.read(raw)
	name, ok := t.nameOf(d.name)
	if !ok {
		return true, nil
	}
	before := bson.E{Key: "$or", Value: bson.A{
		bson.D{{Key: f.Created, Value: bson.D{{Key: "$lt", Value: d.created}}}},
		bson.D{{Key: f.Created, Value: d.created}, {Key: f.Key, Value: bson.D{{Key: "$lt", Value: d.id}}}},
	}}
	raw, err = t.one(ctx, bson.D{q.allUnfinished(), t.ofGroup(name), before}, options.FindOne().SetHint(groupIndex).SetProjection(fields(f.Key)))
	return raw == nil && err == nil, err
}

// Waiting implements [adapters.OperatorQueue]: the oldest documents are shown.
func (q *Queue) Waiting(ctx context.Context, most int) (all []adapters.Row, err error) {
	for _, t := range q.tables {
		found, err := t.rows(ctx, bson.D{q.unfinishedOnly(q.layout.Statuses.Waiting()...)}, options.Find().SetSort(q.byAge()).SetHint(ageIndex).SetLimit(int64(most)))
		if err != nil {
			return nil, wrap(t.Name, "look at what waits", err)
		}
		for i := range found {
			all = append(all, found[i].Row)
		}
	}
	return all, nil
}

// Find implements [adapters.OperatorQueue]. Ids are the keys of documents.
func (q *Queue) Find(ctx context.Context, id string, most int) (found adapters.Found, err error) {
	for _, t := range q.tables {
		rows, err := t.rows(ctx, bson.D{{Key: q.fields.Key, Value: in(idsOf(id))}}, options.Find().SetHint(q.keyIndex()).SetLimit(int64(most)))
		if err != nil {
			return found, wrap(t.Name, "look for an event", err)
		}
		found.Rows = append(found.Rows, rows...)
	}
	return found, nil
}

// rows reads documents with what routes match by and what became of them.
func (t *table) rows(ctx context.Context, filter bson.D, how *options.FindOptionsBuilder) (found []adapters.FoundRow, err error) {
	f := &t.q.fields
	err = t.each(ctx, filter, how, func(raw bson.Raw) bool {
		row := t.decode(raw)
		row.Payload = nil
		is := adapters.FoundRow{Row: *row, Table: t.Name, Status: queue.StatusOf(t.q.layout, text(raw.Lookup(f.Status))), Attempts: t.q.attempts(raw), Error: text(raw.Lookup(f.Error))}
		is.Claimed, _ = raw.Lookup(f.Claimed).TimeOK()
		if is.Changed = is.Claimed; is.Status == adapters.RowDone {
			is.Done, _ = raw.Lookup(f.Done).TimeOK()
		}
		found = append(found, is)
		return true
	})
	return found, err
}
