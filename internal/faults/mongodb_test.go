package faults_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/outriderhq/outrider/internal/failpoint"
	"github.com/outriderhq/outrider/internal/faults/check"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/outbox/mongodb"
)

// documents is a database with FlowCatalyst's collections.
type documents struct {
	t      *testing.T
	url    string
	db     *mongo.Database
	client *mongodb.FlowCatalyst
	turns  [20]sync.Mutex // of the writers of a group
}

func newDocuments(t *testing.T) *documents {
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
	c, err := mongodb.NewFlowCatalyst(mongodb.Config{Database: db, WithoutTransaction: true})
	must(t, err)
	return &documents{t: t, url: url, db: db, client: c}
}

// config is a configuration with the state in a file.
func (d *documents) config(to string) string {
	return d.configWith(d.url, to, fmt.Sprintf("lease: 5s\nstate: {url: %q}\n", filepath.Join(d.t.TempDir(), "state.db")), "claims: {timeout: 1s, recover: 1s}")
}

// configWith is a configuration with what a test says at the top and of the source.
func (d *documents) configWith(server, to, top, source string) string {
	return fmt.Sprintf("admin: {listen: off}\n%ssources:\n  app: {type: mongodb, url: %q, database: %s, %s, %s}\n"+
		"destinations:\n  platform: {type: http, preset: flowcatalyst, url: %q, token: secret-token}\nroutes:\n  outbox: {from: app, to: platform}\n",
		top, server, d.db.Name(), busy, source, to)
}

// publish writes n items of a group.
func (d *documents) publish(ctx context.Context, kind outbox.FlowCatalystKind, group int, ref string, n int) error {
	d.turns[group].Lock()
	defer d.turns[group].Unlock()
	name := ""
	if group > 0 { // the first one is that of documents without a group
		name = fmt.Sprint("g", group)
	}
	items := make([]outbox.FlowCatalystItem, n)
	for i := range items {
		payload, err := json.Marshal(item{string(kind), name, "order.created", fmt.Sprint(ref, "-", i)})
		if err != nil {
			return err
		}
		items[i] = outbox.FlowCatalystItem{Kind: kind, Group: name, Payload: payload}
	}
	_, err := d.client.Publish(ctx, items...)
	return err
}

// write publishes until it is stopped.
func (d *documents) write() (stop func()) {
	ctx, cancel := context.WithCancel(d.t.Context())
	var writers sync.WaitGroup
	for w := range 3 {
		writers.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				kind := []outbox.FlowCatalystKind{outbox.FlowCatalystEvent, outbox.FlowCatalystDispatchJob}[n%2]
				// What is written half when the test ends is not: a batch of documents is no transaction.
				if err := d.publish(d.t.Context(), kind, rand.IntN(len(d.turns)), fmt.Sprint("w", w, "-", n), 1+rand.IntN(8)); err != nil {
					d.t.Errorf("writer %d: %v", w, err)
					return
				}
				pause(ctx, 50*time.Millisecond)
			}
		})
	}
	return func() { cancel(); writers.Wait() }
}

// collections are both collections with their kinds.
func (d *documents) collections() map[outbox.FlowCatalystKind]*mongo.Collection {
	return map[outbox.FlowCatalystKind]*mongo.Collection{outbox.FlowCatalystEvent: d.db.Collection("outbox_events"),
		outbox.FlowCatalystDispatchJob: d.db.Collection("outbox_dispatch_jobs")}
}

// count counts documents that meet a condition.
func (d *documents) count(filter bson.D) (n int) {
	d.t.Helper()
	for _, c := range d.collections() {
		in, err := c.CountDocuments(d.t.Context(), filter)
		must(d.t, err)
		n += int(in)
	}
	return n
}

// rows returns what was committed, in the order that the document defines.
func (d *documents) rows() (rows []check.Row) {
	d.t.Helper()
	for kind, c := range d.collections() {
		cursor, err := c.Find(d.t.Context(), bson.D{}, options.Find().SetSort(bson.D{{Key: "createdAt", Value: 1}, {Key: "_id", Value: 1}}))
		must(d.t, err)
		var found []struct {
			Group   *string `bson:"messageGroup"`
			Payload string  `bson:"payload"`
		}
		must(d.t, cursor.All(d.t.Context(), &found))
		for i, f := range found {
			var of item
			must(d.t, json.Unmarshal([]byte(f.Payload), &of))
			group := "default"
			if f.Group != nil {
				group = *f.Group
			}
			rows = append(rows, check.Row{ID: of.Ref, Group: string(kind) + ":" + group, Position: int64(i + 1)})
		}
	}
	return rows
}

// completed reports whether all documents are delivered.
func (d *documents) completed() bool {
	d.t.Helper()
	return d.count(bson.D{{Key: "status", Value: bson.D{{Key: "$ne", Value: "COMPLETED"}}}}) == 0
}

// asTheOriginalLeavesThem expects no traces of our claims in any document, and no failed attempt.
func (d *documents) asTheOriginalLeavesThem() {
	d.t.Helper()
	touched := bson.D{{Key: "$or", Value: bson.A{bson.D{{Key: "outriderClaim", Value: bson.D{{Key: "$exists", Value: true}}}}, bson.D{{Key: "retryCount", Value: bson.D{{Key: "$ne", Value: 0}}}},
		bson.D{{Key: "errorMessage", Value: bson.D{{Key: "$ne", Value: nil}}}}, bson.D{{Key: "processedAt", Value: nil}}}}}
	if n := d.count(touched); n > 0 {
		d.t.Errorf("%d documents are not as the original leaves them", n)
	}
}

// TestG1_G2_MongoDBKilledAtEveryStep kills the program at each step between the claim of a document and its settlement. What a kill
// leaves claimed is recovered after a while, and nothing of the claim stays in the documents.
func TestG1_G2_MongoDBKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	d := newDocuments(t)
	to := newAPI(t, nil)
	to.killed = true
	config := d.config(to.url())
	initialise(t, config)
	stop := d.write()
	defer stop()
	points := []failpoint.Point{failpoint.Fetched, failpoint.BeforeSend, failpoint.AfterSend, failpoint.BeforeSettle, failpoint.InSettle, failpoint.AfterSettle}
	kills := killAtEach(t, points, to.receiver, func(env string) *relay { return startWith(t, config, env) })
	stop()
	r := start(t, config)
	r.says("msg=ready")
	r.until("delivered and settled everything", d.completed)
	r.stop()
	report := check.Compare(d.rows(), to.all()...)
	t.Logf("%d kills, at %v in turn: %v", kills, points, report)
	if !report.Clean() || report.Committed == 0 || report.Duplicates > kills*1000 {
		t.Errorf("not clean: %v", report)
	}
	d.asTheOriginalLeavesThem()
}
