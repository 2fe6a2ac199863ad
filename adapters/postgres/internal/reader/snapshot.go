package reader

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Snapshot is PostgreSQL's pg_snapshot: a transaction is visible in it when
// its id is below xmax and not among those that were in progress.
type Snapshot struct {
	Xmax uint64
	Xip  []uint64 // ascending
}

// ParseSnapshot reads the text form, xmin:xmax:xip,xip,...
func ParseSnapshot(s string) (Snapshot, error) {
	parts := strings.Split(s, ":")
	if len(parts) != 3 {
		return Snapshot{}, fmt.Errorf("%q is not a snapshot such as 100:120:100,105", s)
	}
	xmax, err := strconv.ParseUint(parts[1], 10, 64)
	if err != nil {
		return Snapshot{}, fmt.Errorf("%q is not a snapshot: its second part is no number", s)
	}
	snap := Snapshot{Xmax: xmax}
	if parts[2] == "" {
		return snap, nil
	}
	for part := range strings.SplitSeq(parts[2], ",") {
		xid, err := strconv.ParseUint(part, 10, 64)
		if err != nil {
			return Snapshot{}, fmt.Errorf("%q is not a snapshot: its third part is no list of numbers", s)
		}
		snap.Xip = append(snap.Xip, xid)
	}
	return snap, nil
}

// Visible reports whether a transaction had been committed or rolled back when
// the snapshot was taken.
func (s Snapshot) Visible(xid uint64) bool {
	if xid >= s.Xmax {
		return false
	}
	_, running := slices.BinarySearch(s.Xip, xid)
	return !running
}

// Covers reports whether everything visible in the older snapshot is visible in
// s. Of two snapshots of one cluster, the later covers the earlier.
func (s Snapshot) Covers(older Snapshot) bool {
	if older.Xmax > s.Xmax {
		return false
	}
	return !slices.ContainsFunc(s.Xip, older.Visible)
}

// Covers implements [adapters.SnapshotComparer]. What is no snapshot covers only itself.
func (*Reader) Covers(snapshot, other string) bool {
	if snapshot == other {
		return true
	}
	s, err := ParseSnapshot(snapshot)
	older, otherErr := ParseSnapshot(other)
	return err == nil && otherErr == nil && s.Covers(older)
}

// Before returns the snapshot without transactions from next on.
func (s Snapshot) Before(next uint64) Snapshot {
	if s.Xmax <= next {
		return s
	}
	n, _ := slices.BinarySearch(s.Xip, next)
	return Snapshot{Xmax: next, Xip: s.Xip[:n]}
}

// Text writes the snapshot as PostgreSQL reads it.
func (s Snapshot) Text() string {
	xmin := s.Xmax
	list := make([]string, len(s.Xip))
	for i, xid := range s.Xip {
		xmin = min(xmin, xid)
		list[i] = strconv.FormatUint(xid, 10)
	}
	if s.Xmax == 0 {
		return "1:1:" // nothing is visible; PostgreSQL knows no transaction 0
	}
	return fmt.Sprintf("%d:%d:%s", xmin, s.Xmax, strings.Join(list, ","))
}
