package state

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
)

// What others may have written into the tables, or an earlier version, is read or refused with the row's name.
func TestOddValuesOfColumns(t *testing.T) {
	t.Parallel()
	lane := adapters.LaneRef{Route: "r", Slot: 4}
	for text, want := range map[string][]int64{"[]": {}, "[ ]": {}, "[3,-1]": {3, -1}, "null": nil} {
		if got, err := ParseBeyond(lane, text); err != nil || !slices.Equal(got, want) {
			t.Errorf("beyond %q is read as %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "{}", `["1"]`, "[1.5]", "[9223372036854775808]"} {
		if _, err := ParseBeyond(lane, text); err == nil || !strings.Contains(err.Error(), "r/04") {
			t.Errorf("beyond %q: %v", text, err)
		}
	}
	if got := BeyondText([]int64{3, -1}); got != "[3,-1]" || BeyondText(nil) != "[]" {
		t.Errorf("written %s, %s", got, BeyondText(nil))
	}
	for _, text := range []string{"", "{}", "[1]", `[{"at": 1}]`} {
		if got := DecodeTries(text); got != nil {
			t.Errorf("tries %q are read as %v", text, got)
		}
	}
	for text, want := range map[string]int{"[]": 0, "null": 0, `[{"route":"base64:/w=="}]`: 1} {
		routes, err := DecodeRoutes(text)
		if err != nil || len(routes) != want || want == 1 && routes[0].Route != "\xff" {
			t.Errorf("routes %q are read as %v, %v", text, routes, err)
		}
	}
	if _, err := DecodeRoutes("{"); err == nil {
		t.Error("half an object was decoded as routes")
	}
	for _, tt := range []struct{ subject, place, want string }{
		{"", "{}", "outrider_operation o: its subject"}, {"{}", "[]", "outrider_operation o: its place"}, {"{}", "{}", ""},
	} {
		o := adapters.Operation{ID: "o"}
		if err := decodeOperation(&o, tt.subject, tt.place); tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%q and %q: %v", tt.subject, tt.place, err)
		}
	}
}

// The place of an operation is where its next step continues: it comes back as it was, whatever bytes its keys have.
func TestPlacesOfOperationsComeBack(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]adapters.OperationPlace{
		"none":    {},
		"parked":  {Parked: adapters.ParkedKey{LaneRef: adapters.LaneRef{Route: "r\xff", Slot: 3}, Seq: 9}, ParkedOver: true},
		"dead":    {Source: 2, Dead: adapters.DeadKey{Table: "t", Created: "2026-01-01", Key: "\x00"}},
		"pending": {Source: 1, Pending: []adapters.DeadKey{{Table: "t", Key: "1"}, {Table: "t", Key: "base64:"}}},
		"backoff": {Dead: adapters.DeadKey{Key: "1", Retrying: true}, Pending: []adapters.DeadKey{{Key: "2", Retrying: true}, {Key: "3"}}},
		"routes":  {Route: 7},
	} {
		var got adapters.Operation
		if err := decodeOperation(&got, "{}", encodePlace(&want)); err != nil {
			t.Fatal(err)
		}
		if g, w := got.Place, want; g.Parked != w.Parked || g.ParkedOver != w.ParkedOver || g.Source != w.Source || g.Dead != w.Dead || g.Route != w.Route || !slices.Equal(g.Pending, w.Pending) {
			t.Errorf("%s: %+v came back as %+v", name, w, g)
		}
	}
}

// Errors that differ in numbers, ids and quoted texts are one failure, whose name lies among those of its route.
func TestFailuresAreNamedByTheirShape(t *testing.T) {
	t.Parallel()
	name := Failure("r", "t", `https://a.example/x/7 answered 422: order "a b" of 7f3c9a1e-1111-4222-8333-444455556666 is late`)
	if same := Failure("r", "t", `https://a.example/x/7 answered 422: order "c" of 00000000-1111-4222-8333-444455556666 is late`); same != name {
		t.Errorf("two names for one failure: %x, %x", name, same)
	}
	for what, other := range map[string]int64{
		"route":   Failure("s", "t", `https://a.example/x/7 answered 422: order "c" of 1 is late`),
		"type":    Failure("r", "u", `https://a.example/x/7 answered 422: order "c" of 1 is late`),
		"address": Failure("r", "t", `https://b.example/x/7 answered 422: order "c" of 1 is late`),
		"words":   Failure("r", "t", `https://a.example/x/7 answered 422: order "c" of 1 is early`),
	} {
		if other == name {
			t.Errorf("another %s has the same name", what)
		}
	}
	first, last := FailuresOf("r")
	if name < first || name > last || name <= 0 {
		t.Errorf("%x is not in %x to %x", name, first, last)
	}
	if FailureColumn("r", &adapters.Parked{}) != nil {
		t.Error("a message that has not failed has a failure")
	}
	if a, b := Failure("r", "t", strings.Repeat("x", 4<<10)+"a"), Failure("r", "t", strings.Repeat("x", 4<<10)+"b"); a != b {
		t.Error("the end of a very long error counts")
	}
}

// Those who record events at the same time lock rows in one order, and each once, for the longer time.
func TestSeenEventsAreSortedAndSingle(t *testing.T) {
	t.Parallel()
	event := func(route, id string, keep time.Duration) adapters.SeenEvent {
		return adapters.SeenEvent{EventRef: adapters.EventRef{Route: route, ID: id}, Keep: keep}
	}
	long := strings.Repeat("x", 600)
	got := SortSeen([]adapters.SeenEvent{event("s", "1", 1), event("r", "2", 1), event("r", "2", 5), event("r", "1", 1), event("r", long, 1), event("r", "\xff", 1)})
	var ids []string
	for _, e := range got {
		ids = append(ids, e.Route+" "+e.ID)
	}
	if want := []string{"r 1", "r 2", "r base64:/w==", "r " + Key(long), "s 1"}; !slices.Equal(ids, want) || got[1].Keep != 5 {
		t.Errorf("got %q", ids)
	}
	if key := Key(long); len(key) > 80 || key == Key(long+"y") {
		t.Errorf("the key of a long id is %q", key)
	}
}

// What Columns make of a message fits the columns of any database.
func TestColumnsOfMessages(t *testing.T) {
	t.Parallel()
	c := ColumnsOf("r", &adapters.Parked{})
	if c.Payload == nil || c.Due != nil || c.DueMicros() != nil || c.Failure != nil || c.Group != "" || c.Metadata != "{}" && c.Metadata != "null" || c.Tries != "[]" {
		t.Errorf("an empty message is %+v", c)
	}
	at := time.UnixMicro(1234)
	c = ColumnsOf("r", &adapters.Parked{Group: "\x00", LastError: "a\x00b", NextAttemptAt: at, ID: "base64:", Status: adapters.ParkedHeld})
	if c.DueMicros() != int64(1234) || !strings.HasPrefix(c.Group, marker) || strings.Contains(c.Error, "\x00") || Unpack(c.ID) != "base64:" || c.Failure == nil || c.Status != "held" {
		t.Errorf("it is %+v", c)
	}
}
