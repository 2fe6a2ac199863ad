package mongodb

import (
	"cmp"
	"context"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/adaptertest"
	"github.com/outriderhq/outrider/adapters/layout"
	"github.com/outriderhq/outrider/internal/testenv"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// env is a database with FlowCatalyst's collections.
type env struct {
	t      testing.TB
	at     Connection
	db     *mongo.Database // for the test's own statements
	layout Layout
	tables []Table
}

func newEnv(t testing.TB) *env {
	t.Helper()
	url, name := testenv.MongoDB(t)
	client, err := mongo.Connect(options.Client().ApplyURI(url))
	must(t, err)
	db := client.Database(name)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		must(t, db.Drop(ctx))
		must(t, client.Disconnect(ctx))
	})
	l := *layout.FlowCatalyst().Queue
	e := &env{t: t, at: Connection{URL: url, Database: name}, db: db, layout: l, tables: l.Tables}
	_, err = Init(t.Context(), e.at, l, e.tables...)
	must(t, err)
	return e
}

// queue opens a queue, which the caller closes.
func (e *env) queue() *Queue {
	e.t.Helper()
	q, err := New(Config{Connection: e.at, Tables: e.tables, Layout: e.layout})
	must(e.t, err)
	return q
}

// statuses are the suite's statuses as the layout has them.
func (e *env) statuses() map[adaptertest.QueueStatus]string {
	s := &e.layout.Statuses
	return map[adaptertest.QueueStatus]string{adaptertest.QueueWaiting: s.Pending, adaptertest.QueueProcessing: s.Processing,
		adaptertest.QueueDone: s.Done, adaptertest.QueueDead: s.Dead}
}

// insert writes documents field by field as the original writes them.
func (e *env) insert(rows ...adaptertest.QueueRow) {
	e.t.Helper()
	byTable := map[string][]any{}
	for i := range rows {
		r := &rows[i]
		var group any
		if r.Group != "" {
			group = r.Group
		}
		byTable[r.Table] = append(byTable[r.Table], bson.D{{Key: "_id", Value: r.Key}, {Key: "type", Value: cmp.Or(r.Type, "EVENT")}, {Key: "messageGroup", Value: group},
			{Key: "payload", Value: r.Payload}, {Key: "status", Value: e.statuses()[cmp.Or(r.Status, adaptertest.QueueWaiting)]}, {Key: "retryCount", Value: int32(r.Attempts)}, //nolint:gosec // small
			{Key: "createdAt", Value: r.CreatedAt}, {Key: "processedAt", Value: nil}, {Key: "errorMessage", Value: nil}})
	}
	for table, docs := range byTable {
		_, err := e.db.Collection(table).InsertMany(context.Background(), docs)
		must(e.t, err)
	}
}

// rows reads the collections.
func (e *env) rows() (all []adaptertest.QueueRow) {
	e.t.Helper()
	for _, of := range e.tables {
		cursor, err := e.db.Collection(of.Name).Find(context.Background(), bson.D{}, options.Find().SetSort(bson.D{{Key: "createdAt", Value: 1}, {Key: "_id", Value: 1}}))
		must(e.t, err)
		var docs []struct {
			ID     string    `bson:"_id"`
			Type   string    `bson:"type"`
			Group  string    `bson:"messageGroup"`
			Body   string    `bson:"payload"`
			Status string    `bson:"status"`
			Tries  int       `bson:"retryCount"`
			Made   time.Time `bson:"createdAt"`
			Error  string    `bson:"errorMessage"`
		}
		must(e.t, cursor.All(context.Background(), &docs))
		for _, d := range docs {
			r := adaptertest.QueueRow{Table: of.Name, Key: d.ID, Type: d.Type, Group: d.Group, Payload: d.Body, CreatedAt: d.Made, Attempts: d.Tries, Error: d.Error}
			for status, is := range e.statuses() {
				if is == d.Status {
					r.Status = status
				}
			}
			all = append(all, r)
		}
	}
	return all
}

// set changes documents as another processor would, which knows nothing of our field.
func (e *env) set(status adaptertest.QueueStatus, since time.Duration, keys ...string) {
	e.t.Helper()
	for _, of := range e.tables {
		_, err := e.db.Collection(of.Name).UpdateMany(context.Background(), bson.D{{Key: "_id", Value: in(keys)}},
			bson.D{{Key: "$set", Value: bson.D{{Key: "status", Value: e.statuses()[status]}, {Key: "processedAt", Value: time.Now().Add(-since)}}}})
		must(e.t, err)
	}
}

func (e *env) harness() adaptertest.QueueHarness {
	h := adaptertest.QueueHarness{
		Queue: e.queue(), Open: func(*testing.T) adapters.Queue { return e.queue() },
		DefaultGroup: e.layout.DefaultGroup, RetriesOnly: e.layout.DeadKeepsRetries, Timeout: DefaultTimeout,
		Insert: func(t *testing.T, rows ...adaptertest.QueueRow) { t.Helper(); e.insert(rows...) },
		Rows:   func(t *testing.T) []adaptertest.QueueRow { t.Helper(); return e.rows() },
		Set: func(t *testing.T, status adaptertest.QueueStatus, since time.Duration, keys ...string) {
			t.Helper()
			e.set(status, since, keys...)
		},
	}
	for _, of := range e.tables {
		h.Tables, h.Prefixes = append(h.Tables, of.Name), append(h.Prefixes, of.Kind+":")
	}
	return h
}

func TestQueueConformance(t *testing.T) {
	t.Parallel()
	adaptertest.Queue(t, func(t *testing.T) adaptertest.QueueHarness { return newEnv(t).harness() })
}
