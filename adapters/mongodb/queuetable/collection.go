package queuetable

import (
	"context"
	"errors"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// collection is the collection, once the server has said what it is.
func (t *table) collection(ctx context.Context) (*mongo.Collection, error) {
	db, err := t.q.server.Database(ctx)
	if err != nil {
		return nil, err
	}
	return db.Collection(t.Name), nil
}

// each calls a function with the documents that a filter finds, until it returns false.
func (t *table) each(ctx context.Context, filter bson.D, find *options.FindOptionsBuilder, f func(bson.Raw) bool) error {
	coll, err := t.collection(ctx)
	if err != nil {
		return err
	}
	cursor, err := coll.Find(ctx, filter, find)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := background(ctx)
		defer cancel()
		_ = cursor.Close(ctx) // Err returns the error
	}()
	for cursor.Next(ctx) {
		if !f(cursor.Current) {
			return nil
		}
	}
	return cursor.Err()
}

// keys are the keys of the documents that a filter on keys finds, as text.
func (t *table) keys(ctx context.Context, filter bson.D) (map[string]bool, error) {
	key, all := t.q.fields.Key, map[string]bool{}
	err := t.each(ctx, filter, options.Find().SetHint(t.q.keyIndex()).SetProjection(fields(key)), func(raw bson.Raw) bool {
		all[keyOf(raw.Lookup(key))] = true
		return true
	})
	return all, err
}

// one reads a document; nil: a filter finds none.
func (t *table) one(ctx context.Context, filter bson.D, find *options.FindOneOptionsBuilder) (bson.Raw, error) {
	coll, err := t.collection(ctx)
	if err != nil {
		return nil, err
	}
	raw, err := coll.FindOne(ctx, filter, find).Raw()
	if errors.Is(err, mongo.ErrNoDocuments) {
		return nil, nil //nolint:nilnil // see above
	}
	return raw, err
}

// count counts documents.
func (t *table) count(ctx context.Context, filter bson.D, how ...options.Lister[options.CountOptions]) (int, error) {
	coll, err := t.collection(ctx)
	if err != nil {
		return 0, err
	}
	n, err := coll.CountDocuments(ctx, filter, how...)
	return int(n), err
}

// update changes documents that a filter on keys finds, and counts those that it finds and those that it changes.
func (t *table) update(ctx context.Context, filter, change bson.D) (found, changed int, err error) {
	coll, err := t.collection(ctx)
	if err != nil {
		return 0, 0, err
	}
	result, err := coll.UpdateMany(ctx, filter, change, options.UpdateMany().SetHint(t.q.keyIndex()))
	if err != nil {
		return 0, 0, err
	}
	return int(result.MatchedCount), int(result.ModifiedCount), nil
}

// write writes changes of documents in any order, and counts those that it finds.
func (t *table) write(ctx context.Context, models []mongo.WriteModel) (found int, err error) {
	coll, err := t.collection(ctx)
	if err != nil {
		return 0, err
	}
	result, err := coll.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false))
	if err != nil {
		return 0, err
	}
	return int(result.MatchedCount), nil
}

// fields are a projection, or an index, of fields.
func fields(names ...string) bson.D {
	all := make(bson.D, len(names))
	for i, name := range names {
		all[i] = bson.E{Key: name, Value: 1}
	}
	return all
}
