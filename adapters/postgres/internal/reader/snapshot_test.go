package reader

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestParseSnapshot(t *testing.T) {
	t.Parallel()
	s, err := ParseSnapshot("10:20:10,14")
	if err != nil {
		t.Fatal(err)
	}
	for xid, want := range map[uint64]bool{1: true, 10: false, 11: true, 14: false, 19: true, 20: false, 99: false} {
		if s.Visible(xid) != want {
			t.Errorf("visible(%d) = %v", xid, !want)
		}
	}
	for _, bad := range []string{"", "1", "1:2", "1:x:", "1:2:x", "1:2:3,", "1:2:3:4"} {
		if _, err := ParseSnapshot(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

// TestLaterSnapshotsCoverEarlierOnes runs transactions and takes snapshots as
// PostgreSQL does: xmax is one above the latest that has ended.
func TestLaterSnapshotsCoverEarlierOnes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		running, next, latest := map[uint64]bool{}, uint64(10), uint64(9)
		take := func() Snapshot {
			s := Snapshot{Xmax: latest + 1}
			for xid := range running {
				if xid < s.Xmax {
					s.Xip = append(s.Xip, xid)
				}
			}
			slices.Sort(s.Xip)
			return s
		}
		step := func() (ended bool) {
			if len(running) == 0 || rapid.Bool().Draw(t, "begin") {
				running[next] = true
				next++
				return false
			}
			xid := rapid.SampledFrom(slices.Sorted(maps.Keys(running))).Draw(t, "end")
			delete(running, xid)
			latest = max(latest, xid)
			return true
		}
		for range rapid.IntRange(0, 10).Draw(t, "before") {
			step()
		}
		older, ended := take(), false
		for range rapid.IntRange(0, 10).Draw(t, "between") {
			ended = step() || ended
		}
		newer := take()
		if !newer.Covers(older) || older.Covers(newer) == ended {
			t.Fatalf("older %v, newer %v, ended between them %v: newer covers older %v, older covers newer %v",
				older, newer, ended, newer.Covers(older), older.Covers(newer))
		}
	})
}

func TestReaderComparesSnapshots(t *testing.T) {
	t.Parallel()
	var r *Reader
	for _, c := range []struct {
		snapshot, other string
		want            bool
	}{
		{"10:20:12", "10:20:12", true},
		{"10:20:12", "10:20:10,12", true},
		{"10:20:10,12", "10:20:12", false},
		{"10:30:", "10:20:12", true},
		{"10:20:12", "10:30:", false},
		{"", "", true},
		{"10:20:12", "", false},
		{"", "10:20:12", false},
	} {
		if got := r.Covers(c.snapshot, c.other); got != c.want {
			t.Errorf("%q covers %q: got %v, want %v", c.snapshot, c.other, got, c.want)
		}
	}
}

func TestASnapshotIsShortenedToWhatTheServerKnows(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text string
		next uint64
		want string
	}{
		{"10:20:10,15", 25, "10:20:10,15"}, {"10:20:10,15", 20, "10:20:10,15"}, {"10:20:10,15", 15, "10:15:10"}, {"10:20:10,15", 16, "10:16:10,15"}, {"10:20:10,15", 5, "5:5:"},
	} {
		snap, err := ParseSnapshot(tt.text)
		if err != nil {
			t.Fatal(err)
		}
		short := snap.Before(tt.next)
		if got := short.Text(); got != tt.want || !snap.Covers(short) {
			t.Errorf("%s before %d: %s, want %s", tt.text, tt.next, got, tt.want)
		}
	}
}
