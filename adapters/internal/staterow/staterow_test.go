package staterow

import (
	"maps"
	"testing"

	"pgregory.net/rapid"

	"github.com/outriderhq/outrider/outbox"
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
	for _, f := range []outbox.ParkedFilter{{}, {Limit: 5}, {Status: "lost"}, {Route: "r", Limit: -1}} {
		if err := CheckCommand(f); err == nil {
			t.Errorf("%+v was accepted", f)
		}
	}
	if err := CheckCommand(outbox.ParkedFilter{Group: "g"}); err != nil {
		t.Error(err)
	}
}

func TestWaitingMessagesAreDiscardedOnlyByName(t *testing.T) {
	t.Parallel()
	if s := DiscardSelector(outbox.ParkedFilter{Route: "r"}).Statuses; len(s) != 3 {
		t.Errorf("a discard by route touches %v", s)
	}
	waiting := outbox.ParkedFilter{Status: outbox.ParkedWaiting}
	if s := DiscardSelector(waiting).Statuses; len(s) != 1 || s[0] != "waiting" {
		t.Errorf("a discard of waiting messages touches %v", s)
	}
	if s := RedriveSelector(waiting).Statuses; len(s) != 0 {
		t.Errorf("a redrive of waiting messages touches %v", s)
	}
}

func TestSettlingALaneTwiceIsRefused(t *testing.T) {
	t.Parallel()
	lane := func(route string, slot int) outbox.Settlement {
		return outbox.Settlement{LaneRef: outbox.LaneRef{Route: route, Slot: slot}}
	}
	sorted, err := SortSettlements([]outbox.Settlement{lane("b", 0), lane("a", 2), lane("a", 1)})
	if err != nil || sorted[0].LaneRef != (outbox.LaneRef{Route: "a", Slot: 1}) {
		t.Fatalf("got %v, %v", sorted, err)
	}
	if _, err := SortSettlements([]outbox.Settlement{lane("a", 1), lane("a", 1)}); err == nil {
		t.Fatal("one lane was settled twice")
	}
}
