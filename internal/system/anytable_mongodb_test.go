package system_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/internal/testenv"
)

// A collection has no types: ids, groups, times and payloads of all kinds are in one. Each document is delivered once, or FAILED with an error;
// an id from the list of dead documents names one.
func TestDocumentsOfAnyTypeInMongoDB(t *testing.T) {
	t.Parallel()
	url, name := testenv.MongoDB(t)
	client, err := mongo.Connect(options.Client().ApplyURI(url))
	must(t, err)
	db := client.Database(name)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		must(t, db.Drop(ctx))
		must(t, client.Disconnect(ctx))
	})
	cfg, err := outrider.ParseConfig("test.yaml", fmt.Appendf(nil, `admin: {listen: "off"}
state: {url: "sqlite:%s"}
sources: {app: {type: mongodb, url: %q, database: %s, leader: false, poll: {min: 5ms, max: 100ms}}}
destinations: {bus: {type: publisher, topic: all}}
routes: {app: {from: app, to: bus, middleware: [poison, {retry: {attempts: 2, base: 1ms}}]}}
`, filepath.Join(t.TempDir(), "state.db"), url, name))
	must(t, err)
	quiet := outrider.WithLogger(slog.New(slog.DiscardHandler))
	_, err = operate.Init(t.Context(), cfg, quiet)
	must(t, err)

	object, day := bson.NewObjectID(), time.Date(2026, 1, 31, 8, 0, 0, 0, time.UTC)
	// Code and regular expressions are not among them: the test server cannot sort them. The adapter's tests have one at a time.
	odd := []any{bson.A{}, bson.A{"a"}, bson.D{{Key: "a", Value: 1}}, bson.MinKey{}, bson.MaxKey{}, bson.Binary{Data: []byte{255}}, true, day, 7, 1.5}
	ids := []any{"5", int32(5), "5.5", 5.5, object, object.Hex(), bson.Binary{Subtype: 4, Data: make([]byte, 16)}, bson.D{{Key: "a", Value: 1}}, bson.D{{Key: "a", Value: "1"}}, day, true, "true", strings.Repeat("k", 1000)}
	groups := append([]any{nil, "a", "A", "a ", "", "é", "x", ":x", "default"}, odd...)
	made := []any{day, day, time.Date(1600, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), "2026-01-31", nil, bson.A{}}
	bus := &anyReceiver{deny: map[string]bool{}, tried: map[string]int{}, took: map[string][]*message.Message{}}
	dies := map[string]bool{}
	coll := db.Collection("outbox_events")
	for i := range 60 {
		mark := fmt.Sprintf("t000.%02d", i)
		group, createdAt, payload := groups[i%len(groups)], made[i/2%len(made)], any(fmt.Sprintf(`{"n":%q}`, mark))
		_, isTime := createdAt.(time.Time)
		_, isText := group.(string)
		dies[mark] = !isTime || group != nil && !isText
		if i%9 == 4 {
			payload, dies[mark] = []any{"not json", bson.D{{Key: "n", Value: mark}}, nil, ""}[i/9%4], true
		}
		bus.deny[mark] = i%5 == 1
		id := any(fmt.Sprintf("k%02d", i))
		if i < len(ids) {
			id = ids[i]
		}
		_, err := coll.InsertOne(t.Context(), bson.D{{Key: "_id", Value: id}, {Key: "mark", Value: mark}, {Key: "type", Value: "t"}, {Key: "messageGroup", Value: group},
			{Key: "payload", Value: payload}, {Key: "status", Value: "PENDING"}, {Key: "retryCount", Value: 0}, {Key: "createdAt", Value: createdAt}})
		must(t, err)
	}
	status := func() map[string]string {
		t.Helper()
		cursor, err := coll.Find(t.Context(), bson.D{})
		must(t, err)
		var docs []struct{ Mark, Status string }
		must(t, cursor.All(t.Context(), &docs))
		found := map[string]string{}
		for _, d := range docs {
			found[d.Mark] = d.Status
		}
		return found
	}
	count := func(want ...string) (n int) {
		for _, s := range status() {
			if slices.Contains(want, s) {
				n++
			}
		}
		return n
	}
	stop := relay(t, cfg, outrider.WithDestination("bus", bus))
	waiting := func() bool { return count("PENDING", "PROCESSING") == 0 }
	eventuallyOr(t, waiting)
	for mark, s := range status() {
		want := "COMPLETED"
		if dies[mark] || bus.deny[mark] {
			want = "FAILED"
		}
		if s != want || s == "COMPLETED" && len(bus.took[mark]) != 1 {
			t.Errorf("document %s is %s, and was delivered %d times; want %s", mark, s, len(bus.took[mark]), want)
		}
	}
	asOperator(t, cfg, func(op *operate.Operator) {
		list, err := op.Parked(t.Context(), adapters.ParkedFilter{Limit: 1000})
		if err != nil || len(list) != count("FAILED") {
			t.Errorf("parked list has %d documents, %v; %d are dead", len(list), err, count("FAILED"))
		}
		for i, m := range list {
			id := m.ID
			if slices.ContainsFunc(list[i+1:], func(o operate.ParkedMessage) bool { return o.ID == id }) { // the text; the other one is next
				id = strconv.Quote(id)
			}
			action := adapters.ParkedRedrive
			if i%3 == 0 {
				action = adapters.ParkedPurge
			}
			if n, err := op.ChangeParked(t.Context(), adapters.ParkedCommand{Action: action, Filter: adapters.ParkedFilter{ID: id}, By: "me"}, operate.RateLimit{}); n != 1 || err != nil || m.LastError == "" {
				t.Errorf("%s of %q: %d documents, %v; its error is %q", action, m.ID, n, err, m.LastError)
			}
		}
		eventuallyOr(t, waiting)
		rows, _, err := op.Status(t.Context(), nil, nil)
		if err != nil || len(rows) != 1 || rows[0].Dead != count("FAILED") {
			t.Errorf("status: %+v, %v; %d documents are dead", rows, err, count("FAILED"))
		}
	})
	stop()
}
