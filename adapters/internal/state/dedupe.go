package state

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"github.com/outriderhq/outrider/adapters"
)

// longestKey is the longest text that is a key as it is. Outbox ids have at most
// 255 bytes; what a broker sends may be longer than an index entry can be.
const longestKey = 512

// Key makes an event id fit for a primary key: a long one is replaced by its
// digest.
func Key(id string) string {
	if packed := Pack(id); len(packed) <= longestKey {
		return packed
	}
	sum := sha256.Sum256([]byte(id))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// SortSeen returns the events as they are stored, in the order of their
// keys, so that those who write at the same time lock rows in one order, and
// each once.
func SortSeen(events []adapters.SeenEvent) []adapters.SeenEvent {
	sorted := make([]adapters.SeenEvent, len(events))
	for i, e := range events {
		e.EventRef = adapters.EventRef{Route: Pack(e.Route), ID: Key(e.ID)}
		sorted[i] = e
	}
	slices.SortFunc(sorted, func(a, b adapters.SeenEvent) int {
		return cmp.Or(cmp.Compare(a.Route, b.Route), cmp.Compare(a.ID, b.ID), cmp.Compare(b.Keep, a.Keep))
	})
	return slices.CompactFunc(sorted, func(a, b adapters.SeenEvent) bool { return a.EventRef == b.EventRef })
}
