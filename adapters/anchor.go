package adapters

import (
	"fmt"
	"hash/crc64"
)

// Anchor is what the row at a cursor's position is known by. A table that was put
// back to an earlier state gives out its positions a second time; when it has come
// to the cursor's again, another row is there. As long as the row is the same, all
// positions up to it were given out before the table was put back, so that rows
// written since are above the cursor, and are delivered.
//
// The zero value is that of a cursor at whose position no row was seen. [Anchor.Matches] compares
// them.
type Anchor struct {
	Slot int    // of the row, which can be another than the cursor's
	Born int64  // when it was created, in microseconds since 1970; 0: not known
	Sum  uint64 // of its id and, when it is not known when it was created, of its payload; never 0
}

// IsZero reports whether no row is known.
func (a Anchor) IsZero() bool { return a == Anchor{} }

// Matches reports whether both can be of one row. The slot takes no part: positions
// are unique, and in tables of others the slot depends on which column is the group.
// Nor does anything when only one knows when its row was created: the column was
// added to the configuration, or removed from it.
func (a Anchor) Matches(b Anchor) bool {
	if (a.Born == 0) != (b.Born == 0) {
		return true
	}
	return a.Born == b.Born && a.Sum == b.Sum
}

// String is how state stores keep the anchor; [ParseAnchor] reads it.
func (a Anchor) String() string {
	if a.IsZero() {
		return ""
	}
	return fmt.Sprintf("%d:%d:%016x", a.Slot, a.Born, a.Sum)
}

// ParseAnchor reads what [Anchor.String] has written.
func ParseAnchor(text string) (a Anchor, err error) {
	if text == "" {
		return a, nil
	}
	if _, err := fmt.Sscanf(text, "%d:%d:%x", &a.Slot, &a.Born, &a.Sum); err != nil {
		return Anchor{}, fmt.Errorf("the cursor's anchor %q cannot be read: %w", text, err)
	}
	return a, nil
}

// Anchor returns what the row is known by. It is made for every row that is
// delivered, so it reads no more than it must: with the time of creation the
// payload takes no part.
func (r *Row) Anchor() Anchor {
	const offset, prime = 14695981039346656037, 1099511628211 // FNV-1a
	sum := uint64(offset)
	for i := range len(r.ID) {
		sum = (sum ^ uint64(r.ID[i])) * prime
	}
	a := Anchor{Slot: r.Slot}
	switch {
	case !r.CreatedAt.IsZero():
		a.Born = r.CreatedAt.UnixMicro()
	case r.Err == nil: // otherwise what is there depends on the configuration
		sum = crc64.Update(sum, crcTable, r.Payload)
	}
	a.Sum = max(sum, 1)
	return a
}

var crcTable = crc64.MakeTable(crc64.ECMA)
