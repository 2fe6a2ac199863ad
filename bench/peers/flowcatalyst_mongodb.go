package peers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/outriderhq/outrider/bench/measure"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	mongooptions "go.mongodb.org/mongo-driver/v2/mongo/options"
)

// documentItems is FlowCatalyst's collection in MongoDB.
type documentItems struct{}

// documentClaim is the number of documents that the floor passes on at once. It
// claims them one by one.
const documentClaim = 100

// The peers of the scenario mongodb.
var (
	DocumentFloor = storedFloor{storedItems{documentItems{}}, "the claim of FlowCatalyst's document for MongoDB (findOneAndUpdate of one document at a time, in the order of its index)"}
	DocumentRelay = relayTo(documentItems{}, `type: mongodb, url: {mongodb}, database: {database}`, "state: {url: {postgres}}\n", "collections in MongoDB, state in PostgreSQL")
)

func (documentItems) variable() string { return envMongoDB }

// on calls do with the collection.
func (documentItems) on(ctx context.Context, name string, do func(*mongo.Collection) error) error {
	client, err := mongo.Connect(mongooptions.Client().ApplyURI(os.Getenv(envMongoDB)))
	if err != nil {
		return err
	}
	return errors.Join(do(client.Database(name).Collection("outbox_events")), client.Disconnect(context.WithoutCancel(ctx)))
}

// make makes nothing: a database begins with its first collection.
func (documentItems) make(context.Context, string) error { return nil }

func (d documentItems) drop(ctx context.Context, name string) error {
	return d.on(ctx, name, func(c *mongo.Collection) error { return c.Database().Drop(ctx) })
}

func (d documentItems) table(ctx context.Context, name string) error {
	return d.on(ctx, name, func(c *mongo.Collection) error {
		_, err := c.Indexes().CreateOne(ctx, mongo.IndexModel{Keys: bson.D{{Key: "status", Value: 1}, {Key: "messageGroup", Value: 1}, {Key: "createdAt", Value: 1}}})
		return err
	})
}

func (d documentItems) fill(ctx context.Context, name string, items func(yield func(*item) bool)) error {
	return d.on(ctx, name, func(c *mongo.Collection) error {
		if _, err := c.DeleteMany(ctx, bson.D{}); err != nil {
			return err
		}
		var docs []any
		write := func() error {
			if len(docs) == 0 {
				return nil
			}
			_, err := c.InsertMany(ctx, docs)
			docs = docs[:0]
			return err
		}
		for i := range items {
			docs = append(docs, bson.D{{Key: "_id", Value: i.id}, {Key: "type", Value: "EVENT"}, {Key: "messageGroup", Value: i.group}, {Key: "payload", Value: i.payload},
				{Key: "status", Value: "PENDING"}, {Key: "retryCount", Value: int32(0)}, {Key: "createdAt", Value: i.created}, {Key: "processedAt", Value: nil}, {Key: "errorMessage", Value: nil}})
			if len(docs) == measure.CommitRows {
				if err := write(); err != nil {
					return err
				}
			}
		}
		return write()
	})
}

func (d documentItems) wrong(ctx context.Context, name string) (n int, err error) {
	err = d.on(ctx, name, func(c *mongo.Collection) error {
		found, err := c.CountDocuments(ctx, bson.D{{Key: "$or", Value: bson.A{
			bson.D{{Key: "status", Value: bson.D{{Key: "$ne", Value: "COMPLETED"}}}}, bson.D{{Key: "processedAt", Value: nil}},
			bson.D{{Key: "retryCount", Value: bson.D{{Key: "$ne", Value: 0}}}}, bson.D{{Key: "errorMessage", Value: bson.D{{Key: "$ne", Value: nil}}}}}}})
		n = int(found)
		return err
	})
	return n, err
}

func (documentItems) claimer(_ context.Context, name string) (itemClaimer, error) {
	client, err := mongo.Connect(mongooptions.Client().ApplyURI(os.Getenv(envMongoDB)))
	if err != nil {
		return nil, err
	}
	return documentClaimer{client, client.Database(name).Collection("outbox_events")}, nil
}

// documentClaimer claims and completes by the document's statements.
type documentClaimer struct {
	client *mongo.Client
	coll   *mongo.Collection
}

func (c documentClaimer) close() { _ = c.client.Disconnect(context.Background()) }

func (c documentClaimer) claim(ctx context.Context) ([]*part, error) {
	var parts parting
	how := mongooptions.FindOneAndUpdate().SetSort(bson.D{{Key: "messageGroup", Value: 1}, {Key: "createdAt", Value: 1}}).SetReturnDocument(mongooptions.After)
	for range documentClaim {
		raw, err := c.coll.FindOneAndUpdate(ctx, bson.D{{Key: "status", Value: "PENDING"}},
			bson.D{{Key: "$set", Value: bson.D{{Key: "status", Value: "PROCESSING"}, {Key: "processedAt", Value: time.Now()}}}}, how).Raw()
		if errors.Is(err, mongo.ErrNoDocuments) {
			break
		}
		if err != nil {
			return nil, err
		}
		parts.add([]byte(raw.Lookup("_id").StringValue()), []byte(raw.Lookup("messageGroup").StringValue()), []byte(raw.Lookup("payload").StringValue()))
	}
	return parts.all, nil
}

func (c documentClaimer) complete(ctx context.Context, ids []string) error {
	done, err := c.coll.UpdateMany(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}}, {Key: "status", Value: "PROCESSING"}},
		bson.D{{Key: "$set", Value: bson.D{{Key: "status", Value: "COMPLETED"}, {Key: "processedAt", Value: time.Now()}}}})
	if err == nil && done.MatchedCount != int64(len(ids)) {
		err = fmt.Errorf("%w: %d of %d are as claimed", errNotOurs, done.MatchedCount, len(ids))
	}
	return err
}
