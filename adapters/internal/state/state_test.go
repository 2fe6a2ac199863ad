package state

import (
	"maps"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/sqltext"
)

func TestPackIsReversibleAndStorable(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(
			rapid.String(),
			rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
			rapid.Map(rapid.String(), func(s string) string { return marker + s }),
		).Draw(t, "s")
		if got := Unpack(Pack(s)); got != s {
			t.Fatalf("Unpack(Pack(%q)) = %q", s, got)
		}
		if !storable(Pack(s)) {
			t.Fatalf("Pack(%q) = %q cannot be stored", s, Pack(s))
		}
		if !storable(Clean(s)) {
			t.Fatalf("Clean(%q) = %q cannot be stored", s, Clean(s))
		}
	})
}

func TestOrdinaryTextStaysReadable(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "order-1", "größe", "a b\nc"} {
		if Pack(s) != s || Clean(s) != s {
			t.Errorf("%q was changed: packed %q, cleaned %q", s, Pack(s), Clean(s))
		}
	}
}

func TestMetadataKeepsAnyBytes(t *testing.T) {
	t.Parallel()
	meta := map[string]string{"plain": "text", "": "empty key", "bin": "\xff\x00\xfe", "\xff": "k"}
	got, err := DecodeMetadata(EncodeMetadata(meta))
	if err != nil || !maps.Equal(got, meta) {
		t.Fatalf("got %q, %v", got, err)
	}
	if _, err := DecodeMetadata("[1]"); err == nil {
		t.Fatal("an array was decoded as metadata")
	}
}

func TestCommandsNeedASelection(t *testing.T) {
	t.Parallel()
	for _, f := range []adapters.ParkedFilter{{}, {Limit: 5}, {Status: "lost"}, {Route: "r", Limit: -1}} {
		if err := CheckCommand(adapters.ParkedCommand{Action: adapters.ParkedSkip, Filter: f}); err == nil {
			t.Errorf("%+v was accepted", f)
		}
	}
	for _, c := range []adapters.ParkedCommand{
		{Action: adapters.ParkedSkip, Filter: adapters.ParkedFilter{Group: "g"}}, {Action: adapters.ParkedPurge, All: true},
	} {
		if err := CheckCommand(c); err != nil {
			t.Error(err)
		}
	}
}

func TestStatementsHoldNoTextOfUsers(t *testing.T) {
	t.Parallel()
	const evil = "'; DROP TABLE outrider_parked; --"
	db := Database{Dialect: Dialect{Dialect: sqltext.Dialect{Param: sqltext.Dollar}, Names: sqltext.Names{"text": "text"}}}
	s := db.list(adapters.ParkedFilter{Route: evil, Group: evil, ID: evil, Status: adapters.ParkedDead, Type: evil,
		Error: evil + "%_", Before: time.Unix(1, 0), Limit: 7}, 9)
	_, got, _ := strings.Cut(s.SQL(), " FROM (SELECT f.*, ")
	_, got, _ = strings.Cut(got, " AS described FROM ")
	want := `outrider_parked WHERE true AND route = $4 AND message_group = $5 AND event_id = $6` +
		` AND event_type = $7 AND status IN ('dead') AND lower(last_error) LIKE lower($8) ESCAPE '!' AND parked_at < $9` +
		` ORDER BY route, slot, seq LIMIT $10) AS f) AS f ORDER BY route, slot, seq`
	if got != want || strings.Contains(s.SQL(), "DROP") {
		t.Errorf("got  %s\nwant %s in %s", got, want, s.SQL())
	}
	if len(s.Args) != 10 || s.Args[0] != int64(9) || s.Args[7] != "%"+strings.ReplaceAll(evil, "_", "!_")+"!%!_%" || s.Args[9] != 7 {
		t.Errorf("arguments %q", s.Args)
	}
}

func TestAuditRecordsKeepWhatWasSet(t *testing.T) {
	t.Parallel()
	got := FilterJSON(adapters.ParkedFilter{Route: "r", Type: "t\x00", Before: time.Unix(1, 0), Limit: 3,
		After: adapters.ParkedKey{LaneRef: adapters.LaneRef{Route: "r", Slot: 4}, Seq: 9}})
	if want := `{"after":"r/04/9","before":"1970-01-01T00:00:01Z","limit":"3","route":"r","type":"t\ufffd"}`; got != want &&
		got != strings.ReplaceAll(want, `\ufffd`, "\uFFFD") {
		t.Errorf("got %s", got)
	}
}

func TestSettlingALaneTwiceIsRefused(t *testing.T) {
	t.Parallel()
	lane := func(route string, slot int) adapters.Settlement {
		return adapters.Settlement{LaneRef: adapters.LaneRef{Route: route, Slot: slot}}
	}
	sorted, err := SortSettlements([]adapters.Settlement{lane("b", 0), lane("a", 2), lane("a", 1)})
	if err != nil || sorted[0].LaneRef != (adapters.LaneRef{Route: "a", Slot: 1}) {
		t.Fatalf("got %v, %v", sorted, err)
	}
	if _, err := SortSettlements([]adapters.Settlement{lane("a", 1), lane("a", 1)}); err == nil {
		t.Fatal("one lane was settled twice")
	}
}

func TestCleanCuts(t *testing.T) {
	t.Parallel()
	for _, s := range []string{strings.Repeat("é", 5000), strings.Repeat("a\xff", 5000)} {
		if got := Clean(s); len(got) > 1<<10 || !utf8.ValidString(got) || !strings.HasSuffix(got, "(cut)") {
			t.Errorf("%d bytes", len(got))
		}
	}
}
