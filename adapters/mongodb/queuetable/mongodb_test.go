package queuetable

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/adaptertest"
	"github.com/outriderhq/outrider/adapters/layout"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
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
			{Key: "payload", Value: r.Payload}, {Key: "status", Value: e.statuses()[cmp.Or(r.Status, adaptertest.QueueWaiting)]}, {Key: "retryCount", Value: int32(r.Attempts)},
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
		Queue: e.queue(), Open: func(*testing.T) adapters.OperatorQueue { return e.queue() },
		DefaultGroup: e.layout.DefaultGroup, RetriesOnly: e.layout.DeadKeepsRetries, Timeout: DefaultTimeout,
		Insert: func(t *testing.T, rows ...adaptertest.QueueRow) { t.Helper(); e.insert(rows...) },
		Rows:   func(t *testing.T) []adaptertest.QueueRow { t.Helper(); return e.rows() },
		Set: func(t *testing.T, status adaptertest.QueueStatus, since time.Duration, keys ...string) {
			t.Helper()
			e.set(status, since, keys...)
		},
	}
	h.Retaining = func(t *testing.T) adapters.OperatorQueue {
		t.Helper()
		inner := *e
		inner.layout.OldIsDeleted = true
		_, err := Init(t.Context(), e.at, inner.layout, e.tables...)
		must(t, err)
		return inner.queue()
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

// originalClaims claims as the original does: one document at a time.
func (e *env) originalClaims(ctx context.Context, coll *mongo.Collection) (id string, err error) {
	var d struct {
		ID string `bson:"_id"`
	}
	err = coll.FindOneAndUpdate(ctx, bson.D{{Key: "status", Value: "PENDING"}}, bson.D{{Key: "$set", Value: bson.D{{Key: "status", Value: "PROCESSING"}, {Key: "processedAt", Value: time.Now()}}}},
		options.FindOneAndUpdate().SetSort(bson.D{{Key: "messageGroup", Value: 1}, {Key: "createdAt", Value: 1}}).SetReturnDocument(options.After)).Decode(&d)
	return d.ID, err
}

// TestG3_BesideTheOriginal has eight processors of the original work beside two of ours: no document has two owners.
func TestG3_BesideTheOriginal(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	const n = 400
	rows := make([]adaptertest.QueueRow, n)
	for i := range rows {
		rows[i] = adaptertest.QueueRow{Table: "outbox_events", Key: fmt.Sprintf("%013d", i), Group: fmt.Sprint("g", i%40), Payload: "{}", CreatedAt: time.UnixMilli(int64(i))}
	}
	e.insert(rows...)
	var mu sync.Mutex
	owners, byUs := map[string]int{}, 0
	own := func(us bool, keys ...string) {
		mu.Lock()
		defer mu.Unlock()
		for _, key := range keys {
			if owners[key]++; us {
				byUs++
			}
		}
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for {
				id, err := e.originalClaims(t.Context(), e.db.Collection("outbox_events"))
				if errors.Is(err, mongo.ErrNoDocuments) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				own(false, id)
				if _, err := e.db.Collection("outbox_events").UpdateByID(t.Context(), id, bson.D{{Key: "$set", Value: bson.D{{Key: "status", Value: "COMPLETED"}}}}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 2 {
		q := e.queue()
		t.Cleanup(func() { must(t, q.Close()) })
		all.Go(func() {
			for {
				claimed, err := q.Claim(t.Context(), adapters.ClaimRequest{Slots: lanes(), Limit: 20})
				if err != nil {
					t.Error(err)
					return
				}
				results := make([]adapters.ClaimResult, len(claimed))
				for i, row := range claimed {
					own(true, row.ID)
					results[i] = adapters.ClaimResult{Claim: row.Claim, Outcome: outbox.OutcomeDelivered}
				}
				if lost, err := q.Settle(t.Context(), results); err != nil || len(lost) > 0 {
					t.Errorf("settle: %d lost, %v", len(lost), err)
				}
				if left, err := e.db.Collection("outbox_events").CountDocuments(t.Context(), bson.D{{Key: "status", Value: bson.D{{Key: "$ne", Value: "COMPLETED"}}}}); err != nil || left == 0 {
					return
				}
			}
		})
	}
	all.Wait()
	for _, row := range rows {
		if owners[row.Key] != 1 {
			t.Errorf("document %s had %d owners", row.Key, owners[row.Key])
		}
	}
	t.Logf("%d of %d documents were claimed by us", byUs, n)
}

// lanes are all lanes.
func lanes() (all []int) {
	for slot := range adapters.Slots {
		all = append(all, slot)
	}
	return all
}

// TestG2_WhatIsNoPrefixGoesBack: a document in the middle of what a claim has chosen is taken by somebody else before it is marked. What is
// behind it goes back, and what is before it is kept.
func TestG2_WhatIsNoPrefixGoesBack(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	var rows []adaptertest.QueueRow
	for i := range 5 {
		rows = append(rows, adaptertest.QueueRow{Table: "outbox_events", Key: fmt.Sprintf("%013d", i), Group: "g", Payload: "{}", CreatedAt: time.UnixMilli(int64(i))})
	}
	e.insert(rows...)
	q := e.queue()
	t.Cleanup(func() { must(t, q.Close()) })
	claimed, err := q.Claim(t.Context(), adapters.ClaimRequest{Slots: lanes(), Limit: 20, Match: func(row *adapters.Row) bool {
		if row.ID == rows[4].Key { // the last look before they are marked
			e.set(adaptertest.QueueProcessing, 0, rows[2].Key)
		}
		return true
	}})
	must(t, err)
	if len(claimed) != 2 || claimed[0].ID != rows[0].Key || claimed[1].ID != rows[1].Key {
		t.Errorf("claimed %d documents, want the first two", len(claimed))
	}
	want := []adaptertest.QueueStatus{adaptertest.QueueProcessing, adaptertest.QueueProcessing, adaptertest.QueueProcessing, adaptertest.QueueWaiting, adaptertest.QueueWaiting}
	for i, row := range e.rows() {
		if row.Status != want[i] {
			t.Errorf("document %d is %s, want %s", i, row.Status, want[i])
		}
	}
}

// TestG1_DocumentsWithWrongFieldsAreDead: what no document of the original has is claimed all the same, with an error.
func TestG1_DocumentsWithWrongFieldsAreDead(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	good := bson.D{{Key: "_id", Value: "a"}, {Key: "type", Value: "EVENT"}, {Key: "payload", Value: "{}"}, {Key: "status", Value: "PENDING"}, {Key: "createdAt", Value: time.UnixMilli(1)}}
	with := func(id string, field string, value any) bson.D {
		d := slices.Clone(good)
		d[0].Value = id
		for i := range d {
			if d[i].Key == field {
				d[i].Value = value
				return d
			}
		}
		return append(d, bson.E{Key: field, Value: value})
	}
	_, err := e.db.Collection("outbox_events").InsertMany(t.Context(), []any{with("number", "messageGroup", 5), with("text", "createdAt", "2026-01-01"),
		with("document", "payload", bson.D{}), with("fine", "messageGroup", "")})
	must(t, err)
	q := e.queue()
	t.Cleanup(func() { must(t, q.Close()) })
	claimed, err := q.Claim(t.Context(), adapters.ClaimRequest{Slots: lanes(), Limit: 20})
	must(t, err)
	broken := map[string]bool{}
	for _, row := range claimed {
		broken[row.ID] = row.Err != nil
	}
	if want := map[string]bool{"number": true, "text": true, "document": true, "fine": false}; !maps.Equal(broken, want) {
		t.Errorf("claimed %v, want %v", broken, want)
	}
}

// TestG6_AnArrayAsAGroupStarvesNobody: an array is found among the texts in it. That no route wants one which is the last of a full page of the
// default group, or of another one, keeps no other group from being read.
func TestG6_AnArrayAsAGroupStarvesNobody(t *testing.T) {
	t.Parallel()
	for _, group := range []string{"default", "aaa"} {
		t.Run(group, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			e.tables = e.tables[:1]
			docs := []any{e.document(bson.E{Key: "_id", Value: "z"}, bson.E{Key: "messageGroup", Value: "zzz"})}
			for i := range pageDocuments + 100 {
				var name any = group
				if i == pageDocuments-1 {
					name = bson.A{group}
				}
				docs = append(docs, e.document(bson.E{Key: "_id", Value: strconv.Itoa(i)}, bson.E{Key: "messageGroup", Value: name}, bson.E{Key: "createdAt", Value: bson.DateTime(int64(i))}))
			}
			_, err := e.db.Collection(e.tables[0].Name).InsertMany(t.Context(), docs)
			must(t, err)
			q := e.queue()
			t.Cleanup(func() { must(t, q.Close()) })
			claimed, err := q.Claim(t.Context(), adapters.ClaimRequest{Slots: lanes(), Limit: 20, Match: func(row *adapters.Row) bool { return row.ID == "z" }})
			must(t, err)
			if len(claimed) != 1 || q.Coverage().Since.IsZero() {
				t.Errorf("%d of 1 claimed; the round has ended: %t", len(claimed), !q.Coverage().Since.IsZero())
			}
		})
	}
}

// A document that is being processed and does not say since when is put back by no relay: doctor says that it holds its group up.
func TestDoctorNamesClaimsWithoutADate(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.insert(adaptertest.QueueRow{Table: "outbox_events", Key: "a", Group: "g", Payload: "{}", CreatedAt: time.UnixMilli(1), Status: adaptertest.QueueProcessing})
	q := e.queue()
	t.Cleanup(func() { must(t, q.Close()) })
	if n, err := q.Recover(t.Context()); err != nil || n != 0 {
		t.Fatalf("recovered %d documents, %v", n, err)
	}
	if !slices.ContainsFunc(q.Examine(t.Context()), func(f adapters.Finding) bool { return strings.Contains(f.Text, "1 have no time in processedAt") }) {
		t.Errorf("doctor says %+v", q.Examine(t.Context()))
	}
}

// TestDeadDocumentsAreListedAndChanged pages through documents that were given up, makes some wait again and deletes others.
func TestDeadDocumentsAreListedAndChanged(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	var rows []adaptertest.QueueRow
	for i, table := range []string{"outbox_events", "outbox_events", "outbox_events", "outbox_dispatch_jobs"} {
		rows = append(rows, adaptertest.QueueRow{Table: table, Key: fmt.Sprintf("%013d", i), Group: fmt.Sprint("g", i), Payload: `{"type": "x"}`, CreatedAt: time.UnixMilli(int64(i)),
			Status: adaptertest.QueueDead, Attempts: 3})
	}
	e.insert(rows...)
	q := e.queue()
	t.Cleanup(func() { must(t, q.Close()) })
	var listed []adapters.DeadKey
	for filter := (adapters.DeadFilter{Limit: 2, Payload: true}); ; {
		page, err := q.Dead(t.Context(), filter)
		must(t, err)
		if len(page) == 0 {
			break
		}
		for i := range page {
			if page[i].Row.Type != "x" || page[i].Attempts != 3 {
				t.Errorf("listed %+v", page[i])
			}
			listed = append(listed, page[i].At)
		}
		filter.After = listed[len(listed)-1]
	}
	if len(listed) != len(rows) {
		t.Fatalf("listed %v", listed)
	}
	one, err := q.Dead(t.Context(), adapters.DeadFilter{Group: "EVENT:g1"})
	if must(t, err); len(one) != 1 || one[0].At.Key != rows[1].Key {
		t.Errorf("group EVENT:g1 has %+v", one)
	}
	for action, keys := range map[adapters.ParkedAction][]adapters.DeadKey{adapters.ParkedRedrive: listed[:2], adapters.ParkedPurge: listed[3:]} {
		n, err := q.ChangeDead(t.Context(), action, keys, func(_ context.Context, changed int) error {
			if changed != len(keys) {
				t.Errorf("%s is recorded for %d documents", action, changed)
			}
			return nil
		})
		if must(t, err); n != len(keys) {
			t.Errorf("%s changed %d documents", action, n)
		}
	}
	if n, err := q.ChangeDead(t.Context(), adapters.ParkedPurge, listed[2:3], func(context.Context, int) error { return errors.New("no record") }); err == nil || n != 0 {
		t.Errorf("without a record %d documents were deleted, %v", n, err)
	}
	var left []adaptertest.QueueStatus
	for _, row := range e.rows() {
		left = append(left, row.Status)
	}
	if want := []adaptertest.QueueStatus{adaptertest.QueueWaiting, adaptertest.QueueWaiting, adaptertest.QueueDead}; !slices.Equal(left, want) {
		t.Errorf("the documents are %v, want %v", left, want)
	}
}
