package queuetable

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/adaptertest"
	"github.com/outriderhq/outrider/outbox"
)

// TestDocumentsFollowTheOriginalsLifeCycle compares every field of documents with what the original writes, in their order and with their types.
func TestDocumentsFollowTheOriginalsLifeCycle(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	made := time.UnixMilli(1_700_000_000_000)
	outcomes := []adapters.ClaimResult{{Outcome: outbox.OutcomeDelivered}, {Outcome: outbox.OutcomeRetry, Attempts: 1, Error: "500", At: time.Now().Add(time.Hour)},
		{Outcome: outbox.OutcomeDead, Attempts: 4, Error: "refused"}, {Outcome: outbox.OutcomeReleased}}
	for i := range outcomes {
		e.insert(adaptertest.QueueRow{Table: "outbox_events", Key: strconv.Itoa(i), Group: fmt.Sprint("g", i), Payload: `{"n":  1}`, CreatedAt: made})
	}
	// documents are all of them, without a date that is recent in processedAt: "recent" stands for it.
	documents := func() (all []bson.D) {
		t.Helper()
		cursor, err := e.db.Collection("outbox_events").Find(t.Context(), bson.D{}, options.Find().SetSort(bson.D{{Key: "_id", Value: 1}}))
		must(t, err)
		must(t, cursor.All(t.Context(), &all))
		for _, d := range all {
			for i := range d {
				if at, ok := d[i].Value.(bson.DateTime); ok && d[i].Key == "processedAt" && time.Since(at.Time()).Abs() < time.Hour {
					d[i].Value = "recent"
				}
			}
		}
		return all
	}
	want := func(i int, status string, retries int32, processed, failure any, more ...bson.E) bson.D {
		return append(bson.D{{Key: "_id", Value: strconv.Itoa(i)}, {Key: "type", Value: "EVENT"}, {Key: "messageGroup", Value: fmt.Sprint("g", i)}, {Key: "payload", Value: `{"n":  1}`},
			{Key: "status", Value: status}, {Key: "retryCount", Value: retries}, {Key: "createdAt", Value: bson.NewDateTimeFromTime(made)}, {Key: "processedAt", Value: processed},
			{Key: "errorMessage", Value: failure}}, more...)
	}
	q := e.queue()
	t.Cleanup(func() { must(t, q.Close()) })
	rows, err := q.Claim(t.Context(), adapters.ClaimRequest{Slots: lanes(), Limit: 10})
	must(t, err)
	if len(rows) != len(outcomes) {
		t.Fatalf("claimed %d documents", len(rows))
	}
	for i, d := range documents() {
		token := d[len(d)-1]
		if claimed := want(i, "PROCESSING", 0, "recent", nil, bson.E{Key: ClaimField, Value: token.Value}); !slices.Equal(d, claimed) {
			t.Errorf("a claimed document is %v, want %v", d, claimed)
		}
	}
	slices.SortFunc(rows, func(a, b *adapters.Row) int { return strings.Compare(a.ID, b.ID) })
	for i := range outcomes {
		outcomes[i].Claim = rows[i].Claim
	}
	lost, err := q.Settle(t.Context(), outcomes)
	if must(t, err); len(lost) > 0 {
		t.Fatalf("%d claims were lost", len(lost))
	}
	settled := []bson.D{want(0, "COMPLETED", 0, "recent", nil), want(1, "PENDING", 1, "recent", nil), want(2, "FAILED", 3, "recent", "refused"), want(3, "PENDING", 0, "recent", nil)}
	for i, d := range documents() {
		if !slices.Equal(d, settled[i]) {
			t.Errorf("document %d is %v, want %v", i, d, settled[i])
		}
	}
}

// TestInitMakesTheOriginalsIndexAndOurs, once: one that is there already with another name is the original's.
func TestInitMakesTheOriginalsIndexAndOurs(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	printed := InitScript(e.layout, e.at.Database, "", e.tables...)
	want := map[string]string{"_id_": `{_id: 1}`, "status_1_messageGroup_1_createdAt_1": `{status: 1, messageGroup: 1, createdAt: 1}`}
	for _, i := range ourIndexes(&e.layout) {
		want[i.name] = strings.ReplaceAll(script(i.keys), `"`, "")
	}
	for _, of := range e.tables {
		listed, err := e.db.Collection(of.Name).Indexes().ListSpecifications(t.Context())
		must(t, err)
		found := map[string]string{}
		for _, i := range listed {
			var keys bson.D
			must(t, bson.Unmarshal(i.KeysDocument, &keys))
			found[i.Name] = strings.ReplaceAll(script(keys), `"`, "")
		}
		if !maps.Equal(found, want) {
			t.Errorf("%s has the indexes %v, want %v", of.Name, found, want)
		}
		if n := strings.Count(printed, `getCollection("`+of.Name+`").createIndex(`); n != len(want)-1 {
			t.Errorf("the script creates %d indexes of %s, want %d", n, of.Name, len(want)-1)
		}
	}
	did, err := Init(t.Context(), e.at, e.layout, e.tables...)
	must(t, err)
	for _, sentence := range did {
		if !strings.HasSuffix(sentence, "exists") {
			t.Errorf("a second init says: %s", sentence)
		}
	}
}
