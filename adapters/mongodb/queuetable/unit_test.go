package queuetable

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/adaptertest"
	"github.com/outriderhq/outrider/adapters/internal/queue"
	"github.com/outriderhq/outrider/adapters/layout"
)

// offline is a collection of which no server is asked.
func offline(of Table) *table {
	l := *layout.FlowCatalyst().Queue
	q := &Queue{layout: &l, fields: *l.Fields, first: firstUnfinished(&l), maxRow: 100}
	return &table{Table: of, q: q}
}

// TestKeysOfDocumentsComeBack: the text of an id leads to the id again, and two ids have two texts.
func TestKeysOfDocumentsComeBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		id := func(name string) bson.RawValue {
			switch rapid.IntRange(0, 3).Draw(t, name+" is") {
			case 0:
				return valueOf(rapid.Int64().Draw(t, name))
			case 1:
				return valueOf(bson.ObjectID([12]byte(rapid.SliceOfN(rapid.Byte(), 12, 12).Draw(t, name))))
			}
			return valueOf(rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "5", "-0", "null", "true", `"5"`, `"`, `{"a":1}`, "{", "65f000000000000000000001"})).Draw(t, name))
		}
		a, b := id("a"), id("b")
		if got := idOf(keyOf(a)); !got.Equal(a) {
			t.Fatalf("%s has the key %q, which is that of %s", a, keyOf(a), got)
		}
		if a.Equal(b) != (keyOf(a) == keyOf(b)) {
			t.Fatalf("%s and %s have the keys %q and %q", a, b, keyOf(a), keyOf(b))
		}
		if !slices.ContainsFunc(idsOf(keyOf(a)), func(v any) bool { raw, ok := v.(bson.RawValue); return ok && raw.Equal(a) }) {
			t.Fatalf("an operator who names %s by its key does not find it", a)
		}
	})
}

// TestDecodingDocuments: what a document lacks, or has with another type, is named in the row's error; the rest of it is there.
func TestDecodingDocuments(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		kind  string
		field bson.E
		want  string // of the error; "": there is none
		check func(*adapters.Row) bool
	}{
		"whole": {"", bson.E{}, "", func(r *adapters.Row) bool {
			return r.Group == "g" && string(r.Payload) == `{"n": 1}` && r.Type == "EVENT" && r.Position == 1000
		}},
		"a kind": {"EVENT", bson.E{}, "", func(r *adapters.Row) bool {
			return r.Group == "EVENT:g" && r.Kind == "EVENT" && r.Slot == adapters.SlotOf("EVENT:g", "")
		}},
		"no group": {"", bson.E{Key: "messageGroup", Value: nil}, "", func(r *adapters.Row) bool { return r.Group == "default" }},
		"a number": {"", bson.E{Key: "messageGroup", Value: int32(5)}, "messageGroup is a 32-bit integer, not text", func(r *adapters.Row) bool {
			return r.Group == "" && r.Slot == adapters.SlotOf("", "k") && r.Payload != nil
		}},
		"text for time": {"", bson.E{Key: "createdAt", Value: "2026"}, "createdAt is a string, not a date", func(r *adapters.Row) bool { return r.CreatedAt.IsZero() && r.Position == 1 && r.Group == "g" }},
		"before 1970":   {"", bson.E{Key: "createdAt", Value: bson.DateTime(-5)}, "", func(r *adapters.Row) bool { return r.Position == 1 && r.CreatedAt.UnixMilli() == -5 }},
		"no payload":    {"", bson.E{Key: "payload", Value: bson.D{}}, "payload is a embedded document, not text", func(r *adapters.Row) bool { return r.Payload == nil && r.Group == "g" }},
		"no JSON":       {"", bson.E{Key: "payload", Value: "{"}, "payload is not valid JSON", func(r *adapters.Row) bool { return string(r.Payload) == "{" }},
		"empty":         {"", bson.E{Key: "payload", Value: ""}, "payload is empty", nil},
		"large":         {"", bson.E{Key: "payload", Value: strings.Repeat("1", 101)}, "101 bytes", func(r *adapters.Row) bool { return r.Payload == nil }},
		"its type":      {"", bson.E{Key: "type", Value: int64(7)}, "", func(r *adapters.Row) bool { return r.Type == "" }},
		"long group":    {"", bson.E{Key: "messageGroup", Value: strings.Repeat("g", 2000)}, "group", nil},
	} {
		d := bson.D{{Key: "_id", Value: "k"}, {Key: "type", Value: "EVENT"}, {Key: "messageGroup", Value: "g"}, {Key: "payload", Value: `{"n": 1}`}, {Key: "createdAt", Value: bson.DateTime(1)}}
		if i := slices.IndexFunc(d, func(e bson.E) bool { return e.Key == tt.field.Key }); i >= 0 {
			d[i] = tt.field
		}
		raw, err := bson.Marshal(d)
		must(t, err)
		row := offline(Table{Name: "c", Kind: tt.kind}).decode(raw)
		if (row.Err == nil) != (tt.want == "") || row.Err != nil && !strings.Contains(row.Err.Error(), tt.want) || row.ID != "k" || tt.check != nil && !tt.check(row) {
			t.Errorf("%s: %+v, %v, want %q", name, row, row.Err, tt.want)
		}
		if row.Err != nil && !strings.Contains(row.Err.Error(), `collection c, document "k" cannot be decoded`) {
			t.Errorf("%s: the error names no document: %v", name, row.Err)
		}
	}
}

// TestPagesFollowEachOther: the position behind a page leads through the three sections to the end of the index.
func TestPagesFollowEachOther(t *testing.T) {
	t.Parallel()
	c := offline(Table{Name: "c"})
	full := make([]document, pageDocuments)
	full[len(full)-1] = document{id: valueOf("k"), name: valueOf("z"), created: valueOf(int64(7))}
	array := slices.Clone(full)
	array[len(array)-2], array[len(array)-1].name = full[len(full)-1], bson.RawValue{Type: bson.TypeArray}
	arrays := slices.Repeat(array[len(array)-1:], pageDocuments)
	behindZ := queue.Position{ID: "=z", In: true, Created: valueOf(int64(7)), Key: valueOf("k")}
	for name, tt := range map[string]struct {
		from  queue.Position
		docs  []document
		want  queue.Position
		finds string // by the page at from
	}{
		"the beginning":         {queue.Position{}, nil, queue.Position{ID: "/default"}, `{"messageGroup": {"$in": ["default",null]}}`},
		"after one of no group": {queue.Position{ID: queue.Alone, In: true}, nil, queue.Position{ID: "/default"}, `{"messageGroup": {"$in": ["default",null]}}`},
		"other groups":          {queue.Position{ID: "/default"}, full, behindZ, `{"messageGroup": {"$gte": ""}}`},
		"an array is last":      {queue.Position{ID: "/default"}, array, behindZ, `{"messageGroup": {"$gte": ""}}`},
		"only arrays":           {queue.Position{ID: "/default"}, arrays, queue.Position{}, `{"messageGroup": {"$gte": ""}}`},
		"a group":               {behindZ, nil, queue.Position{ID: "=z"}, `"$or"`},
		"behind a group":        {queue.Position{ID: "=z"}, nil, queue.Position{}, `{"messageGroup": {"$gt": "z"}}`},
		"a new one in a group":  {queue.Position{ID: "=a", In: true}, nil, queue.Position{ID: "=a"}, `{"messageGroup": "a"}`},
	} {
		if got := c.next(tt.from, tt.docs); got.ID != tt.want.ID || got.In != tt.want.In || fmt.Sprint(got.Key, got.Created) != fmt.Sprint(tt.want.Key, tt.want.Created) {
			t.Errorf("%s: the next page is at %+v, want %+v", name, got, tt.want)
		}
		raw, err := bson.Marshal(c.filter(tt.from))
		must(t, err)
		if text := bson.Raw(raw).String(); !strings.Contains(text, strings.Trim(tt.finds, "{}")) || !strings.HasPrefix(text, `{"status": {"$gte": "PENDING"}`) {
			t.Errorf("%s finds %s, want %s", name, text, tt.finds)
		}
		if sorted := c.order(tt.from)[0].Key == "messageGroup"; sorted != (!tt.from.In && strings.ContainsAny(tt.from.ID, "/=")) {
			t.Errorf("%s is in the order %v", name, c.order(tt.from))
		}
	}
}

func TestConfigurationsAreChecked(t *testing.T) {
	t.Parallel()
	l := *layout.FlowCatalyst().Queue
	with := func(change func(*Layout)) Config {
		changed, fields := l, *l.Fields
		changed.Fields = &fields
		change(&changed)
		return Config{Layout: changed, Tables: l.Tables, Connection: Connection{URL: "mongodb://127.0.0.1:1", Database: "d"}}
	}
	for want, cfg := range map[string]Config{
		"no names for the fields":               with(func(l *Layout) { l.Fields = nil }),
		"need a status":                         with(func(l *Layout) { l.Statuses.Processing, l.Fields.Claimed = "", "" }),
		"need a field for groups":               with(func(l *Layout) { l.Fields.Attempts = "" }),
		"not implemented for MongoDB":           with(func(l *Layout) { l.Fields.Owner = "owner" }),
		"must come after the others":            with(func(l *Layout) { l.Statuses.Done = "ZZZ" }),
		"must not be negative":                  {Layout: l, Tables: l.Tables, Timeout: -1},
		"no database is named":                  {Layout: l, Tables: l.Tables},
		"no table is named":                     {Layout: l, Connection: Connection{URL: "mongodb://127.0.0.1:1", Database: "d"}},
		"the url is none that MongoDB's driver": {Layout: l, Tables: l.Tables, Connection: Connection{URL: "http://x", Database: "d"}},
	} {
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestMissingIndexes: what is missing is found by the doctor, and by the check if claims cannot do without. Init creates it, once.
func TestMissingIndexes(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		there []string
		level adapters.Level
		check string // its error
	}{
		"all":            {nil, adapters.LevelBroken, "has no index " + groupIndex},
		"that of claims": {[]string{ageIndex}, adapters.LevelBroken, "has no index " + groupIndex},
		"others":         {[]string{groupIndex, ageIndex}, adapters.LevelWarning, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			e.tables = []Table{{Name: "other"}}
			must(t, e.db.CreateCollection(t.Context(), "other"))
			for _, i := range ourIndexes(&e.layout) {
				if slices.Contains(tt.there, i.name) {
					_, err := i.create(t.Context(), e.db.Collection("other"), nil)
					must(t, err)
				}
			}
			q := e.queue()
			t.Cleanup(func() { must(t, q.Close()) })
			examined := func() adapters.Finding {
				found := q.Examine(t.Context())
				return found[slices.IndexFunc(found, func(f adapters.Finding) bool { return strings.HasSuffix(f.Subject, ": indexes") })]
			}
			if err := q.Check(t.Context()); (err == nil) != (tt.check == "") || err != nil && !strings.Contains(err.Error(), tt.check) {
				t.Errorf("the check says %v, want %q", err, tt.check)
			}
			if f := examined(); f.Level != tt.level || !strings.Contains(f.Text, "missing") {
				t.Errorf("found %+v", f)
			}
			for i, verb := range []string{"created", "exists"} {
				did, err := Init(t.Context(), e.at, e.layout, e.tables...)
				must(t, err)
				made := slices.DeleteFunc(did, func(s string) bool { return !strings.Contains(s, deadIndex) || !strings.Contains(s, verb) })
				if len(made) != 1 {
					t.Errorf("init %d says %q", i, did)
				}
			}
			if f := examined(); f.Level != 0 || q.Check(t.Context()) != nil {
				t.Errorf("after init: %+v", f)
			}
		})
	}
}

// TestRetentionKeepsWhatIsYoung: documents are removed by the time of their creation, no more than a batch at once, and none that is not delivered.
func TestRetentionKeepsWhatIsYoung(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.tables, e.layout.OldIsDeleted = e.tables[:1], true
	q := e.queue()
	t.Cleanup(func() { must(t, q.Close()) })
	if err := q.CheckRetention(t.Context(), adapters.Retention{}); err == nil || !strings.Contains(err.Error(), doneIndex+" is missing") {
		t.Errorf("without the index of delivered documents: %v", err)
	}
	_, err := Init(t.Context(), e.at, e.layout, e.tables...)
	must(t, err)
	for i, status := range []adaptertest.QueueStatus{adaptertest.QueueDone, adaptertest.QueueDone, adaptertest.QueueDone, adaptertest.QueueDead, adaptertest.QueueWaiting} {
		e.insert(adaptertest.QueueRow{Table: e.tables[0].Name, Key: fmt.Sprint("old", i), Payload: "{}", CreatedAt: time.Now().Add(-2 * time.Hour), Status: status})
	}
	e.insert(adaptertest.QueueRow{Table: e.tables[0].Name, Key: "young", Payload: "{}", CreatedAt: time.Now().Add(-time.Minute), Status: adaptertest.QueueDone})
	for i, tt := range []struct {
		r    adapters.Retention
		rows int64
		more bool
		left int64
	}{
		{adapters.Retention{Keep: 3 * time.Hour}, 0, false, 6},
		{adapters.Retention{Keep: time.Hour, DryRun: true, Batch: 2}, 3, false, 6},
		{adapters.Retention{Keep: time.Hour, Batch: 2}, 2, true, 4},
		{adapters.Retention{Keep: time.Hour, Batch: 2}, 1, false, 3},
		{adapters.Retention{}, 1, false, 2},
	} {
		must(t, q.CheckRetention(t.Context(), tt.r))
		got, err := q.RetainDelivered(t.Context(), tt.r)
		left, counted := e.db.Collection(e.tables[0].Name).CountDocuments(context.Background(), bson.D{})
		must(t, counted)
		if err != nil || got.Rows != tt.rows || got.More != tt.more || left != tt.left {
			t.Errorf("step %d: %+v, %v, %d documents are left; want %d removed and %d left", i, got, err, left, tt.rows, tt.left)
		}
	}
}
