package adaptertest

import (
	"bytes"
	"errors"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
)

func testParkReplaceUnpark(t *testing.T, db *stateDB) {
	store, lanes := db.acquired(4)
	due := time.Date(2031, 5, 6, 7, 8, 9, 123456000, time.UTC)
	first := adapters.Parked{
		Seq: 1, Group: "g", Status: adapters.ParkedRetrying, Attempts: 2, NextAttemptAt: due, LastError: "503",
		ID: "e1", Type: "order.created", Position: 77,
		Metadata: map[string]string{"k": "v"}, Payload: []byte(`{"a": 1}`),
		Tries: []adapters.Try{{Number: 1, At: due, Error: "500 \x00"}, {Number: 2, At: due.Add(time.Second), Error: "503"}},
	}
	settle(t, store, parking(lanes[0], first, parked(2, "g", adapters.ParkedWaiting)))
	stored := list(t, store, adapters.ParkedFilter{})
	want := first
	want.LaneRef, want.ParkedAt, want.Size = lanes[0].LaneRef, stored[0].ParkedAt, int64(len(first.Payload))
	want.Tries[0].Error = stored[0].Tries[0].Error // without what no database keeps
	got := stored[0]
	if !got.NextAttemptAt.Equal(due) {
		t.Errorf("due at %v, want %v", got.NextAttemptAt, due)
	}
	got.NextAttemptAt = due
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if stored[0].ParkedAt.IsZero() || !stored[1].NextAttemptAt.IsZero() {
		t.Errorf("parked at %v; a waiting message is due at %v", stored[0].ParkedAt, stored[1].NextAttemptAt)
	}

	replaced := parked(1, "g", adapters.ParkedDead)
	replaced.Attempts, replaced.Payload = 10, []byte("new")
	change := parking(lanes[0], replaced)
	change.Unpark, change.NextSeq = []int64{2, 999}, 3 // what is not there needs no deleting
	settle(t, store, change)
	after := list(t, store, adapters.ParkedFilter{})
	if len(after) != 1 || after[0].Status != adapters.ParkedDead || after[0].Attempts != 10 ||
		string(after[0].Payload) != "new" || !after[0].NextAttemptAt.IsZero() {
		t.Fatalf("replaced by seq: %+v", after)
	}
	if !after[0].ParkedAt.Equal(stored[0].ParkedAt) {
		t.Errorf("replacing moved parked_at from %v to %v", stored[0].ParkedAt, after[0].ParkedAt)
	}

	empty := parked(1, "h", adapters.ParkedWaiting)
	empty.Payload = nil
	again := parking(lanes[0], empty)
	again.Unpark, again.NextSeq = []int64{1}, 3
	settle(t, store, again)
	if last := list(t, store, adapters.ParkedFilter{}); len(last) != 1 || last[0].Group != "h" {
		t.Fatalf("unparked and parked in one settle: %+v", last)
	} else if p := last[0].Payload; p == nil || len(p) > 0 {
		t.Errorf("an empty payload comes back as %#v", p)
	}
}

// A row that an operator took away does not come back with the settle of an attempt that
// was in flight; what was never written is written, whatever its seq.
func testSkippedStaysSkipped(t *testing.T, db *stateDB) {
	store, lanes := db.acquired(4, 5)
	settle(t, store, parking(lanes[0], parked(1, "g", adapters.ParkedRetrying), parked(2, "g", adapters.ParkedRetrying)),
		parking(lanes[1], parked(1, "h", adapters.ParkedRetrying)))
	first := adapters.ParkedCommand{Action: adapters.ParkedSkip, By: "alice",
		Filter: adapters.ParkedFilter{Route: lanes[0].Route, Group: "g", Limit: 1}}
	if step, err := store.ChangeParked(t.Context(), first); err != nil || step.Changed != 1 {
		t.Fatalf("skipped %d, error %v", step.Changed, err)
	}
	again := parking(lanes[0], parked(1, "g", adapters.ParkedDead), parked(2, "g", adapters.ParkedDead), parked(3, "g", adapters.ParkedDead))
	again.Stored = 3
	other := parking(lanes[1], parked(1, "h", adapters.ParkedDead), parked(7, "h", adapters.ParkedDead))
	other.Stored = 2
	settle(t, store, again, other)
	if got := seqsOf(list(t, store, adapters.ParkedFilter{Status: adapters.ParkedDead})); !slices.Equal(got, []int64{2, 3, 1, 7}) {
		t.Errorf("rows %v are parked, want 2 and 3, 1 and 7", got)
	}
}

// A row that an operator redrove stays as that left it: the settle of an attempt that was under
// way does not overwrite it, whatever the outcome of the attempt, unless it was a delivery. A row of which its owner knows
// no attempts is written.
func testRedrivenStaysRedriven(t *testing.T, db *stateDB) {
	store, lanes := db.acquired(4)
	rows := []adapters.Parked{parked(1, "g", adapters.ParkedRetrying), parked(2, "h", adapters.ParkedRetrying), parked(3, "i", adapters.ParkedRetrying)}
	for i := range rows {
		rows[i].Attempts, rows[i].NextAttemptAt = 3, time.Now().Add(time.Hour)
	}
	settle(t, store, parking(lanes[0], rows...))
	redrive := adapters.ParkedCommand{Action: adapters.ParkedRedrive, By: "alice", Filter: adapters.ParkedFilter{Route: lanes[0].Route}}
	if step, err := store.ChangeParked(t.Context(), redrive); err != nil || step.Changed != 3 {
		t.Fatalf("redriven %d, error %v", step.Changed, err)
	}
	for i := range rows {
		rows[i].Attempts, rows[i].Was = 4, 3
	}
	rows[1].Status = adapters.ParkedDead
	rows[2].Was = 0 // the redrive is known
	again := parking(lanes[0], rows...)
	again.Stored = 4
	settle(t, store, again)
	for _, p := range list(t, store, adapters.ParkedFilter{}) {
		want := 0
		if p.Seq == 3 {
			want = 4
		}
		if p.Status != adapters.ParkedRetrying || p.Attempts != want || p.Was != 0 {
			t.Errorf("row %d is %s with %d attempts, want retrying with %d", p.Seq, p.Status, p.Attempts, want)
		}
	}
	again = parking(lanes[0])
	again.Unpark, again.Stored = []int64{1}, 4
	settle(t, store, again)
	if got := seqsOf(list(t, store, adapters.ParkedFilter{})); !slices.Equal(got, []int64{2, 3}) {
		t.Errorf("rows %v are parked after a delivery, want 2 and 3", got)
	}
}

func testParkedQueueOrder(t *testing.T, db *stateDB) {
	store, lanes := db.acquired(0, 1)
	// Written out of order, in two settles, beside other groups and lanes.
	settle(t, store, parking(lanes[0],
		parked(30, "g", adapters.ParkedWaiting), parked(10, "g", adapters.ParkedRetrying), parked(11, "h", adapters.ParkedWaiting),
		parked(5, "", adapters.ParkedRetrying)), parking(lanes[1], parked(15, "g", adapters.ParkedWaiting)))
	settle(t, store, parking(lanes[0],
		parked(20, "g", adapters.ParkedHeld), parked(9, "g", adapters.ParkedDead), parked(6, "", adapters.ParkedWaiting)))

	queue := func(group string, after int64, limit int) []int64 {
		t.Helper()
		messages, err := store.ParkedQueue(t.Context(), lanes[0].LaneRef, group, after, limit, 0)
		if err != nil {
			t.Fatal(err)
		}
		return seqsOf(messages)
	}
	for _, tt := range []struct {
		group string
		after int64
		limit int
		want  []int64
	}{
		{"g", 0, 100, []int64{10, 20, 30}},
		{"g", 0, 2, []int64{10, 20}},
		{"g", 10, 2, []int64{20, 30}},
		{"g", 30, 2, []int64{}},
		{"h", 0, 2, []int64{11}},
		{"", 0, 10, []int64{5, 6}},
		{"", 5, 1, []int64{6}},
		{"unknown", 0, 10, []int64{}},
	} {
		if got := queue(tt.group, tt.after, tt.limit); !slices.Equal(got, tt.want) {
			t.Errorf("queue of %q after %d, at most %d: %v, want %v", tt.group, tt.after, tt.limit, got, tt.want)
		}
	}
}

// Payloads are read as long as they fit together, whatever the messages behind them have, and none where none is wanted.
func testParkedPayloadsFit(t *testing.T, db *stateDB) {
	store, lanes := db.acquired(0)
	var rows []adapters.Parked
	for i, size := range []int{100, 0, 3000, 300_000, 10} {
		p := parked(int64(i+1), "g", adapters.ParkedDead)
		if i > 0 {
			p.Status = adapters.ParkedWaiting
		}
		p.Payload, p.Metadata = bytes.Repeat([]byte("x"), size), map[string]string{"name": "value"}
		rows = append(rows, p)
	}
	settle(t, store, parking(lanes[0], rows...))
	for _, tt := range []struct {
		bytes        int64
		queue, whole int
	}{{0, 0, 0}, {-1, 0, 0}, {200, 1, 2}, {4000, 2, 3}, {303_000, 2, 3}, {400_000, 4, 5}} {
		list, err := store.ListParked(t.Context(), adapters.ParkedFilter{Group: "g"}, tt.bytes)
		queue, err2 := store.ParkedQueue(t.Context(), lanes[0].LaneRef, "g", 0, 10, tt.bytes)
		if err := errors.Join(err, err2); err != nil || len(list) != len(rows) || len(queue) != len(rows)-1 {
			t.Fatalf("%d messages are listed and %d are in the queue, %v; want %d and %d", len(list), len(queue), err, len(rows), len(rows)-1)
		}
		check := func(what string, found, want []adapters.Parked, whole int) {
			for i, p := range found {
				of := want[i]
				size, bare := int64(len(of.Payload)), i >= whole
				if bare {
					of.Payload, of.Metadata = nil, nil
				}
				if p.Seq != of.Seq || p.Size != size || p.Bare != bare || !bytes.Equal(p.Payload, of.Payload) || !maps.Equal(p.Metadata, of.Metadata) {
					t.Errorf("%s, of at most %d bytes: message %d has %d of %d bytes and metadata %v, bare %v; want %d whole messages", what,
						tt.bytes, p.Seq, len(p.Payload), p.Size, p.Metadata, p.Bare, whole)
				}
			}
		}
		check("the list", list, rows, tt.whole)
		check("the queue", queue, rows[1:], tt.queue)
	}
}

func testParkedGroups(t *testing.T, db *stateDB) {
	store, lanes := db.acquired(0, 1)
	due := time.Date(2031, 1, 2, 3, 4, 5, 0, time.UTC)
	retrying := func(seq int64, group string) adapters.Parked {
		p := parked(seq, group, adapters.ParkedRetrying)
		p.NextAttemptAt = due
		return p
	}
	settle(t, store, parking(lanes[0],
		retrying(4, "backoff"), parked(5, "backoff", adapters.ParkedWaiting), parked(9, "backoff", adapters.ParkedWaiting),
		parked(3, "dead", adapters.ParkedDead),
		parked(6, "dead then waiting", adapters.ParkedDead), parked(7, "dead then waiting", adapters.ParkedWaiting),
		parked(8, "held", adapters.ParkedHeld), retrying(12, "held"),
		retrying(1, ""), parked(2, "", adapters.ParkedWaiting), parked(13, "", adapters.ParkedDead),
	), parking(lanes[1], parked(1, "elsewhere", adapters.ParkedWaiting)))

	elsewhere, err := store.ParkedGroups(t.Context(), lanes[0].Route, []int{lanes[1].Slot, lanes[0].Slot})
	if n := len(elsewhere); err != nil || n < 2 || elsewhere[0].Slot != lanes[0].Slot || elsewhere[n-1].Slot != lanes[1].Slot || elsewhere[n-1].Group != "elsewhere" {
		t.Errorf("of two slots: %+v, %v; want the first one's and then the second one's", elsewhere, err)
	}
	groups, err := store.ParkedGroups(t.Context(), lanes[0].Route, []int{lanes[0].Slot})
	if err != nil {
		t.Fatal(err)
	}
	for i := range groups {
		if since := groups[i].Since; time.Since(since).Abs() > time.Hour {
			t.Errorf("group %q is parked since %v", groups[i].Group, since)
		}
		groups[i].Due, groups[i].Since = groups[i].Due.UTC(), time.Time{}
	}
	want := []adapters.ParkedGroup{
		{Group: "", Count: 1, FirstSeq: 1, Due: due},
		{Group: "", Count: 1, FirstSeq: 2},
		{Group: "backoff", Count: 3, FirstSeq: 4, Due: due},
		{Group: "dead then waiting", Count: 1, FirstSeq: 7},
		{Group: "held", Count: 2, FirstSeq: 8, Held: true},
	}
	if !reflect.DeepEqual(groups, want) {
		t.Errorf("got  %+v\nwant %+v", groups, want)
	}
}

func testParkedKeepsAnyBytes(t *testing.T, db *stateDB) {
	store, lanes := db.acquired(0)
	big := bytes.Repeat([]byte{0, 0xff, '{', '\n', '\\', 'x', 0x80}, 1<<20/7)
	p := adapters.Parked{
		Seq: 1, Group: "key\x00\xff", Status: adapters.ParkedRetrying, ID: "id\xfe", Type: "größe\x00",
		LastError: "answer: \x00\xff", Payload: big,
		Metadata: map[string]string{"bin": "\x00\x01\xff", "": "empty", "text": "\"quoted\"\n\\u0000"},
	}
	empty := adapters.Parked{Seq: 2, Group: "empty", Status: adapters.ParkedWaiting}
	longGroup := parked(3, string(bytes.Repeat([]byte("0123456789abcdef"), 1000)), adapters.ParkedWaiting)
	settle(t, store, parking(lanes[0], p, empty, longGroup))

	got := list(t, store, adapters.ParkedFilter{Group: p.Group, ID: p.ID})
	if len(got) != 1 {
		t.Fatalf("%d messages found by a group and an id with any bytes", len(got))
	}
	if got[0].Group != p.Group || got[0].ID != p.ID || got[0].Type != p.Type || !maps.Equal(got[0].Metadata, p.Metadata) {
		t.Errorf("got %q %q %q %q", got[0].Group, got[0].ID, got[0].Type, got[0].Metadata)
	}
	if !bytes.Equal(got[0].Payload, big) {
		t.Errorf("a payload of %d bytes came back changed, with %d", len(big), len(got[0].Payload))
	}
	for _, group := range []string{p.Group, "empty", longGroup.Group} {
		queue, err := store.ParkedQueue(t.Context(), lanes[0].LaneRef, group, 0, 10, 0)
		if err != nil || len(queue) != 1 || queue[0].Group != group {
			t.Errorf("queue of %.20q: %d messages, %v", group, len(queue), err)
		}
	}
	groups, err := store.ParkedGroups(t.Context(), lanes[0].Route, []int{lanes[0].Slot})
	if err != nil || len(groups) != 3 || groups[0].Group != p.Group || groups[2].Group != longGroup.Group {
		t.Errorf("%d groups, %v", len(groups), err)
	}
}
