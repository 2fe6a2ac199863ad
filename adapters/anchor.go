package adapters

import (
	"fmt"
	"hash/crc64"
	"strconv"
	"strings"
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

	// Newest is the newest time of creation of all rows that the source had read when the cursor came here, in
	// microseconds since 1970; 0: not known. A row that the cursor covers and that is newer was not there then.
	Newest int64
}

// IsZero reports whether no row is known.
func (a Anchor) IsZero() bool { return a == Anchor{} }

// Matches reports whether the row that is there now, whose anchor this is, can be the one of
// the other anchor. The slot takes no part: positions
// are unique, and in tables of others the slot depends on which column is the group.
// Nor does anything when only one knows when its row was created: the column was
// added to the configuration, or removed from it. A row that was dated ahead may have been
// given an earlier date since: a row that was written later does not have the same id and an earlier date.
func (a Anchor) Matches(b Anchor) bool {
	if (a.Born == 0) != (b.Born == 0) {
		return true
	}
	return a.Born <= b.Born && a.Sum == b.Sum
}

// Seen is the anchor after more rows were read, the newest of which was created then.
func (a Anchor) Seen(newest int64) Anchor {
	if a.Born != 0 {
		a.Newest = max(a.Newest, newest)
	}
	return a
}

// String is the anchor as text, without what was newest; [ParseAnchor] reads it.
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

// AnchorText is what state stores keep in a cursor's column for the anchor: the anchor, the position that it is of, and what
// the table's lanes are computed from. [ReadAnchorText] reads it. Versions before this one read and write the
// anchor alone, and older ones leave the column as it is when they move the cursor.
func AnchorText(c Cursor, t Table) string {
	if c.Anchor.IsZero() && t.Lanes == "" {
		return ""
	}
	return fmt.Sprintf("%d:%d:%016x:%d:%d:%s", c.Anchor.Slot, c.Anchor.Born, c.Anchor.Sum, c.Position, c.Anchor.Newest, t.Lanes)
}

// ReadAnchorText sets a cursor's anchor, whose position is known, and what the lanes of its table are computed from. An
// anchor of another position is none: a version that knows no anchors has moved the cursor.
func ReadAnchorText(text string, c *Cursor, t *Table) (err error) {
	if c.Anchor, err = ParseAnchor(text); err != nil {
		return err
	}
	parts := strings.SplitN(text, ":", 6)
	if len(parts) < 6 {
		return nil
	}
	t.Lanes = parts[5]
	if position, err := strconv.ParseInt(parts[3], 10, 64); err != nil || position != c.Position {
		c.Anchor = Anchor{}
		return err
	}
	c.Anchor.Newest, err = strconv.ParseInt(parts[4], 10, 64)
	return err
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
		a.Newest = max(a.Born, r.Newest)
	case r.Err == nil: // otherwise what is there depends on the configuration
		sum = crc64.Update(sum, crcTable, r.Payload)
	}
	a.Sum = max(sum, 1)
	return a
}

var crcTable = crc64.MakeTable(crc64.ECMA)
