package postgres

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// snapshot is PostgreSQL's pg_snapshot: a transaction is visible in it when
// its id is below xmax and not among those that were in progress.
type snapshot struct {
	xmax uint64
	xip  []uint64 // ascending
}

// parseSnapshot reads the text form, xmin:xmax:xip,xip,...
func parseSnapshot(s string) (snapshot, error) {
	parts := strings.Split(s, ":")
	if len(parts) != 3 {
		return snapshot{}, fmt.Errorf("%q is not a snapshot such as 100:120:100,105", s)
	}
	xmax, err := strconv.ParseUint(parts[1], 10, 64)
	if err != nil {
		return snapshot{}, fmt.Errorf("%q is not a snapshot: its second part is no number", s)
	}
	snap := snapshot{xmax: xmax}
	if parts[2] == "" {
		return snap, nil
	}
	for part := range strings.SplitSeq(parts[2], ",") {
		xid, err := strconv.ParseUint(part, 10, 64)
		if err != nil {
			return snapshot{}, fmt.Errorf("%q is not a snapshot: its third part is no list of numbers", s)
		}
		snap.xip = append(snap.xip, xid)
	}
	return snap, nil
}

// visible tells whether a transaction had been committed or rolled back when
// the snapshot was taken.
func (s snapshot) visible(xid uint64) bool {
	if xid >= s.xmax {
		return false
	}
	_, running := slices.BinarySearch(s.xip, xid)
	return !running
}

// covers tells whether everything visible in the older snapshot is visible in
// s. Of two snapshots of one cluster, the later covers the earlier.
func (s snapshot) covers(older snapshot) bool {
	if older.xmax > s.xmax {
		return false
	}
	return !slices.ContainsFunc(s.xip, older.visible)
}

// text writes the snapshot as PostgreSQL reads it.
func (s snapshot) text() string {
	xmin := s.xmax
	list := make([]string, len(s.xip))
	for i, xid := range s.xip {
		xmin = min(xmin, xid)
		list[i] = strconv.FormatUint(xid, 10)
	}
	if s.xmax == 0 {
		return "1:1:" // nothing is visible; PostgreSQL knows no transaction 0
	}
	return fmt.Sprintf("%d:%d:%s", xmin, s.xmax, strings.Join(list, ","))
}
