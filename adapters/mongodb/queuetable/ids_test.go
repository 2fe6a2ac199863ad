package queuetable

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/adaptertest"
	"github.com/outriderhq/outrider/outbox"
)

// values are some of every type, in the order of the server.
func values(t *testing.T) bson.A {
	t.Helper()
	oid, err := bson.ObjectIDFromHex("65f000000000000000000001")
	must(t, err)
	decimal, err := bson.ParseDecimal128("0.25")
	must(t, err)
	return bson.A{bson.MinKey{}, nil, int32(5), int64(1) << 60, 0.5, decimal, "5", "", "text", "65f000000000000000000001", "null", `{"a":1}`, `"5"`,
		bson.D{{Key: "a", Value: int32(1)}, {Key: "b", Value: "x"}}, bson.Binary{Subtype: 4, Data: []byte("0123456789abcdef")}, oid, true, bson.DateTime(7), bson.Timestamp{T: 1, I: 2}, bson.MaxKey{}}
}

// document is one whose fields are those of the original, unless others are given.
func (e *env) document(fields ...bson.E) bson.D {
	d := bson.D{{Key: "_id", Value: bson.NewObjectID().String()}, {Key: "type", Value: "EVENT"}, {Key: "messageGroup", Value: "g"}, {Key: "payload", Value: "{}"},
		{Key: "status", Value: "PENDING"}, {Key: "retryCount", Value: int32(0)}, {Key: "createdAt", Value: bson.DateTime(1)}}
	for _, f := range fields {
		d[slices.IndexFunc(d, func(e bson.E) bool { return e.Key == f.Key })] = f
	}
	return d
}

// deliver delivers all that is pending, and returns the ids of what was, and of what is given up.
func (e *env) deliver(q *Queue) (good, bad []string) {
	e.t.Helper()
	for empty := 0; empty < 2; {
		rows, err := q.Claim(e.t.Context(), adapters.ClaimRequest{Slots: lanes(), Limit: 1000})
		must(e.t, err)
		if len(rows) == 0 {
			empty++
		}
		results := make([]adapters.ClaimResult, len(rows))
		for i, row := range rows {
			if results[i] = (adapters.ClaimResult{Claim: row.Claim, Outcome: outbox.OutcomeDelivered}); row.Err != nil {
				results[i].Outcome, results[i].Attempts, results[i].Error = outbox.OutcomeDead, 1, row.Err.Error()
				bad = append(bad, row.ID)
				continue
			}
			good = append(good, row.ID)
		}
		lost, err := q.Settle(e.t.Context(), results)
		if must(e.t, err); len(lost) > 0 {
			e.t.Errorf("%d results are lost", len(lost))
		}
	}
	return good, bad
}

func (e *env) count(status string) int {
	e.t.Helper()
	n, err := e.db.Collection("outbox_events").CountDocuments(e.t.Context(), bson.D{{Key: "status", Value: status}})
	must(e.t, err)
	return int(n)
}

// TestG1_IdsOfEveryType: each document is delivered once, whatever the type of its id is, and an id names one of them.
func TestG1_IdsOfEveryType(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	var docs []any
	var ids []string
	for _, id := range values(t) {
		docs = append(docs, e.document(bson.E{Key: "_id", Value: id}))
	}
	_, err := e.db.Collection("outbox_events").InsertMany(t.Context(), docs)
	must(t, err)
	q := e.queue()
	t.Cleanup(func() { must(t, q.Close()) })
	if good, bad := e.deliver(q); len(good) != len(docs) || len(bad) > 0 || e.count("COMPLETED") != len(docs) {
		t.Errorf("delivered %q of %d documents, gave up %q, %d are completed", good, len(docs), bad, e.count("COMPLETED"))
	}
	_, err = e.db.Collection("outbox_events").UpdateMany(t.Context(), bson.D{}, bson.D{{Key: "$set", Value: bson.D{{Key: "status", Value: "FAILED"}}}})
	must(t, err)
	page, err := q.Dead(t.Context(), adapters.DeadFilter{})
	must(t, err)
	for i := range page {
		ids = append(ids, page[i].Row.ID)
	}
	if len(ids) != len(docs) {
		t.Fatalf("listed %q", ids)
	}
	for _, id := range []string{"5", "65f000000000000000000001", "null", `"5"`} {
		_, err := q.Dead(t.Context(), adapters.DeadFilter{ID: id, Limit: 1})
		if !errors.Is(err, adapters.ErrAmbiguousID) || !strings.Contains(fmt.Sprint(err), quoted(id)) {
			t.Errorf("id %s: %v", id, err)
		}
	}
	for i, row := range page { // each by the name that is its own
		id := row.At.Key
		if v := valueAt(t, e, i); v.Type != bson.TypeString {
			id = written(v)
		}
		if id == "" || id == "null" { // the first selects everything, and the other has no other name
			continue
		}
		one, err := q.Dead(t.Context(), adapters.DeadFilter{ID: id})
		if must(t, err); len(one) != 1 || one[0].At != row.At {
			t.Errorf("id %s names %+v, want %+v", id, one, row.At)
			continue
		}
		before := e.count("PENDING")
		n, err := q.ChangeDead(t.Context(), adapters.ParkedRedrive, []adapters.DeadKey{row.At}, func(context.Context, int) error { return nil })
		if must(t, err); n != 1 || e.count("PENDING") != before+1 {
			t.Errorf("redrive of %s changed %d documents, %d wait", id, n, e.count("PENDING"))
		}
	}
}

// valueAt is the id of a document by its place among them.
func valueAt(t *testing.T, e *env, at int) bson.RawValue {
	t.Helper()
	raw, err := e.db.Collection("outbox_events").FindOne(t.Context(), bson.D{}, options.FindOne().SetSort(bson.D{{Key: "createdAt", Value: 1}, {Key: "_id", Value: 1}}).SetSkip(int64(at))).Raw()
	must(t, err)
	return raw.Lookup("_id")
}

// TestG1_FieldsOfEveryType: a document with a value of any type in a field is delivered, or given up, and others are delivered.
func TestG1_FieldsOfEveryType(t *testing.T) {
	t.Parallel()
	more := bson.A{bson.A{}, bson.A{"a"}, bson.A{int32(1)}, bson.A{nil}, bson.A{bson.A{}}, bson.Regex{Pattern: "x"}, bson.JavaScript("x")}
	for field, delivered := range map[string]func(any) bool{
		"messageGroup": func(v any) bool { _, ok := v.(string); return ok || v == nil },
		"createdAt":    func(v any) bool { _, ok := v.(bson.DateTime); return ok },
		"retryCount":   func(any) bool { return true },
	} {
		t.Run(field, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			q := e.queue()
			t.Cleanup(func() { must(t, q.Close()) })
			var ids []string
			insert := func(v any) {
				ids = append(ids, fmt.Sprint("k", len(ids)))
				_, err := e.db.Collection("outbox_events").InsertOne(t.Context(), e.document(bson.E{Key: "_id", Value: ids[len(ids)-1]}, bson.E{Key: field, Value: v}))
				must(t, err)
			}
			want := 0
			for _, v := range values(t) {
				if insert(v); delivered(v) {
					want++
				}
			}
			good, bad := e.deliver(q)
			if len(good) != want || len(bad) != len(ids)-want || e.count("COMPLETED") != want || e.count("FAILED") != len(bad) {
				t.Errorf("%d documents: delivered %q, want %d, gave up %q", len(ids), good, want, bad)
			}
			sortable := slices.Clone(ids)
			for _, v := range more { // one after the other: few servers sort all of them
				insert(v)
				if good, bad := e.deliver(q); len(good)+len(bad) != 1 || (len(good) == 1) != delivered(v) {
					t.Errorf("%T %v: delivered %q, gave up %q", v, v, good, bad)
				}
			}
			_, err := e.db.Collection("outbox_events").DeleteMany(t.Context(), bson.D{{Key: "_id", Value: in(ids[len(sortable):])}})
			must(t, err)
			_, err = e.db.Collection("outbox_events").UpdateMany(t.Context(), bson.D{}, bson.D{{Key: "$set", Value: bson.D{{Key: "status", Value: "FAILED"}}}})
			must(t, err)
			adaptertest.QueueIDs(t, q, sortable)
		})
	}
}
