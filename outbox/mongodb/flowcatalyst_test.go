package mongodb_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/outbox/mongodb"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func database(t *testing.T) *mongo.Database {
	t.Helper()
	url, name := testenv.MongoDB(t)
	client, err := mongo.Connect(options.Client().ApplyURI(url))
	must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		must(t, client.Database(name).Drop(ctx))
		must(t, client.Disconnect(ctx))
	})
	return client.Database(name)
}

// TestDocumentsAreAsTheOriginalWritesThem compares every field, in their order and with their types.
func TestDocumentsAreAsTheOriginalWritesThem(t *testing.T) {
	t.Parallel()
	db := database(t)
	c, err := mongodb.NewFlowCatalyst(mongodb.Config{Database: db, WithoutTransaction: true})
	must(t, err)
	began := time.Now().Truncate(time.Millisecond)
	ids, err := c.Publish(t.Context(), outbox.FlowCatalystItem{Group: "order-123", Payload: []byte(`{"type":  "order.created"}`)},
		outbox.FlowCatalystItem{Kind: outbox.FlowCatalystDispatchJob, ID: "0HZXEQ5Y8JY5Z", Payload: []byte(`{}`)})
	must(t, err)
	for i, collection := range []string{"outbox_events", "outbox_dispatch_jobs"} {
		var d bson.D
		must(t, db.Collection(collection).FindOne(t.Context(), bson.D{}).Decode(&d))
		made, ok := d[6].Value.(bson.DateTime)
		if !ok || made.Time().Before(began) || made.Time().After(time.Now()) {
			t.Errorf("createdAt is %v", d[6].Value)
		}
		group, payload, kind := any("order-123"), `{"type":  "order.created"}`, "EVENT"
		if i == 1 {
			group, payload, kind = nil, `{}`, "DISPATCH_JOB"
		}
		want := bson.D{{Key: "_id", Value: ids[i]}, {Key: "type", Value: kind}, {Key: "messageGroup", Value: group}, {Key: "payload", Value: payload}, {Key: "status", Value: "PENDING"},
			{Key: "retryCount", Value: int32(0)}, {Key: "createdAt", Value: made}, {Key: "processedAt", Value: nil}, {Key: "errorMessage", Value: nil}}
		if !slices.Equal(d, want) {
			t.Errorf("%s holds %v, want %v", collection, d, want)
		}
	}
	if ids[1] != "0HZXEQ5Y8JY5Z" || outbox.CheckTSID(ids[0]) != nil {
		t.Errorf("ids %v", ids)
	}
}

// TestG2_PublishKeepsTheOrderWhateverTheIds: items with ids of the application, which descend, and some without.
func TestG2_PublishKeepsTheOrderWhateverTheIds(t *testing.T) {
	t.Parallel()
	db := database(t)
	c, err := mongodb.NewFlowCatalyst(mongodb.Config{Database: db, WithoutTransaction: true})
	must(t, err)
	n := 0
	for range 3 {
		items := make([]outbox.FlowCatalystItem, 20)
		for i := range items {
			if items[i] = (outbox.FlowCatalystItem{Group: "g", Payload: fmt.Append(nil, n)}); i%7 > 0 {
				items[i].ID = fmt.Sprintf("%013d", 1000-n)
			}
			n++
		}
		_, err := c.Publish(t.Context(), items...)
		must(t, err)
	}
	cursor, err := db.Collection("outbox_events").Find(t.Context(), bson.D{}, options.Find().SetSort(bson.D{{Key: "createdAt", Value: 1}, {Key: "_id", Value: 1}}))
	must(t, err)
	var docs []struct {
		Payload string `bson:"payload"`
	}
	must(t, cursor.All(t.Context(), &docs))
	for i := range docs {
		if docs[i].Payload != strconv.Itoa(i) || len(docs) != n {
			t.Fatalf("of %d documents number %s is at place %d", len(docs), docs[i].Payload, i)
		}
	}
}

func TestPublishRefuses(t *testing.T) {
	t.Parallel()
	db := database(t)
	c, err := mongodb.NewFlowCatalyst(mongodb.Config{Database: db})
	must(t, err)
	if _, err := c.Publish(t.Context(), outbox.FlowCatalystItem{Payload: []byte(`{}`)}); !errors.Is(err, outbox.ErrNoTransaction) {
		t.Errorf("outside of a transaction: %v", err)
	}
	loose, err := mongodb.NewFlowCatalyst(mongodb.Config{Database: db, WithoutTransaction: true})
	must(t, err)
	for want, item := range map[string]outbox.FlowCatalystItem{
		"EVENT and DISPATCH_JOB": {Kind: "AUDIT_LOG", Payload: []byte(`{}`)},
		"UTF-8":                  {Group: "\xff", Payload: []byte(`{}`)},
		"the limit":              {Payload: []byte(`"` + strings.Repeat("x", outbox.MaxPayloadBytes) + `"`)},
		"payload":                {Payload: []byte(`{`)},
		"id":                     {ID: "x", Payload: []byte(`{}`)},
	} {
		if _, err := loose.Publish(t.Context(), item); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if n, err := db.Collection("outbox_events").CountDocuments(t.Context(), bson.D{}); err != nil || n > 0 {
		t.Errorf("%d documents were written, %v", n, err)
	}
}

// TestG1_PublishedInTheTransaction needs a replica set, which the server of `make test` is not: give one by OUTRIDER_TEST_MONGODB_URL.
func TestG1_PublishedInTheTransaction(t *testing.T) {
	t.Parallel()
	db := database(t)
	var is struct {
		Set string `bson:"setName"`
	}
	must(t, db.RunCommand(t.Context(), bson.D{{Key: "isMaster", Value: 1}}).Decode(&is))
	if is.Set == "" {
		t.Skip("the server is no member of a replica set, so it has no transactions")
	}
	must(t, db.CreateCollection(t.Context(), "outbox_events"))
	c, err := mongodb.NewFlowCatalyst(mongodb.Config{Database: db})
	must(t, err)
	session, err := db.Client().StartSession()
	must(t, err)
	defer session.EndSession(context.Background())
	aborted := errors.New("aborted")
	for _, end := range []error{aborted, nil} {
		_, err := session.WithTransaction(t.Context(), func(ctx context.Context) (any, error) {
			if _, err := c.Publish(ctx, outbox.FlowCatalystItem{Payload: []byte(`{}`)}); err != nil {
				return nil, err
			}
			return nil, end
		})
		if !errors.Is(err, end) {
			t.Fatal(err)
		}
		want := int64(1)
		if end != nil {
			want = 0
		}
		if n, err := db.Collection("outbox_events").CountDocuments(t.Context(), bson.D{}); err != nil || n != want {
			t.Errorf("after %v there are %d documents, %v", end, n, err)
		}
	}
}
