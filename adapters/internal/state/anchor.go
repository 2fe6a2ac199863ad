package state

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/outriderhq/outrider/adapters"
)

// AnchorText is the text in a cursor's column for the anchor: the anchor, the position that it is of, and what
// the table's lanes are computed from. [ReadAnchorText] reads it. Versions before this one read and write the
// anchor alone, and older ones leave the column as it is when they move the cursor.
func AnchorText(c adapters.Cursor, t adapters.Table) string {
	if c.Anchor.IsZero() && t.Lanes == "" {
		return ""
	}
	return fmt.Sprintf("%d:%d:%016x:%d:%d:%s", c.Anchor.Slot, c.Anchor.Born, c.Anchor.Sum, c.Position, c.Anchor.Newest, t.Lanes)
}

// ReadAnchorText sets a cursor's anchor, whose position is known, and what the lanes of its table are computed from. An
// anchor of another position is none: a version that knows no anchors has moved the cursor.
func ReadAnchorText(text string, c *adapters.Cursor, t *adapters.Table) (err error) {
	if c.Anchor, err = parseAnchor(text); err != nil {
		return err
	}
	parts := strings.SplitN(text, ":", 6)
	if len(parts) < 6 {
		return nil
	}
	t.Lanes = parts[5]
	if position, err := strconv.ParseInt(parts[3], 10, 64); err != nil || position != c.Position {
		c.Anchor = adapters.Anchor{}
		return err
	}
	c.Anchor.Newest, err = strconv.ParseInt(parts[4], 10, 64)
	return err
}

// parseAnchor reads the part of a text that versions before this one read and write.
func parseAnchor(text string) (a adapters.Anchor, err error) {
	if text == "" {
		return a, nil
	}
	slot, rest, _ := strings.Cut(text, ":")
	born, rest, _ := strings.Cut(rest, ":")
	sum, _, _ := strings.Cut(rest, ":")
	var errs [3]error
	a.Slot, errs[0] = strconv.Atoi(slot)
	a.Born, errs[1] = strconv.ParseInt(born, 10, 64)
	a.Sum, errs[2] = strconv.ParseUint(sum, 16, 64)
	if err := errors.Join(errs[:]...); err != nil {
		return adapters.Anchor{}, fmt.Errorf("the cursor's anchor %q cannot be read: %w", text, err)
	}
	return a, nil
}
