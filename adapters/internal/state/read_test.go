package state

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"pgregory.net/rapid"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/sqltext"
)

func TestParkedMessagesAreRead(t *testing.T) {
	t.Parallel()
	row := func(metadata string, payload any) []any {
		return []any{"r", 3, int64(9), "base64:/w==", "held", 2, int64(0), "late", int64(5), "base64:AA==", "t", int64(7), `[{"error":"late"}]`, int64(4), false, metadata, payload}
	}
	a := &answers{rows: map[string][][]any{"FROM outrider_parked": {row(`{"k":"base64:/w=="}`, []byte("body"))}}}
	got, err := a.store(nil).ListParked(t.Context(), adapters.ParkedFilter{}, 100)
	if err != nil || len(got) != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	p := got[0]
	if p.Group != "\xff" || p.ID != "\x00" || p.Metadata["k"] != "\xff" || string(p.Payload) != "body" || !p.NextAttemptAt.IsZero() || p.ParkedAt.UnixMicro() != 5 || len(p.Tries) != 1 || p.Status != adapters.ParkedHeld {
		t.Errorf("read %+v", p)
	}
	a.rows["FROM outrider_parked"] = [][]any{row("[", nil)}
	if _, err := a.store(nil).ParkedQueue(t.Context(), adapters.LaneRef{Route: "r", Slot: 3}, "g", 0, 10, 100); err == nil || !strings.Contains(err.Error(), "read a parked group of r/03: outrider_parked r/03 seq 9: metadata") {
		t.Error(err)
	}
	for _, f := range []adapters.ParkedFilter{{Status: "lost"}, {Limit: -1}} {
		a.sent = nil
		if _, err := a.store(nil).ListParked(t.Context(), f, 1); err == nil || a.sent != nil {
			t.Errorf("%+v: %v, sent %q", f, err, a.sent)
		}
	}
}

// A page begins behind the message that the one before ended with, however a database compares keys.
func TestPagesBeginBehindTheLastMessage(t *testing.T) {
	t.Parallel()
	after := adapters.ParkedKey{LaneRef: adapters.LaneRef{Route: "r", Slot: 4}, Seq: 9}
	for name, tt := range map[string]struct {
		dialect Dialect
		f       adapters.ParkedFilter
		want    string
		args    []any
	}{
		"rows":     {Dialect{RowOrder: true}, adapters.ParkedFilter{After: after}, "true AND (route, slot, seq) > (?, ?, ?)", []any{"r", 4, int64(9)}},
		"columns":  {Dialect{}, adapters.ParkedFilter{After: after}, "true AND (route > ? OR route = ? AND (slot > ? OR slot = ? AND seq > ?))", []any{"r", "r", 4, 4, int64(9)}},
		"group":    {Dialect{InGroup: "hash = h(?)"}, adapters.ParkedFilter{Group: "\x00"}, "true AND message_group = ? AND hash = h(?)", []any{"base64:AA==", "base64:AA=="}},
		"no group": {Dialect{InGroup: "hash = h(?)"}, adapters.ParkedFilter{Failure: 7}, "true AND failure = ?", []any{int64(7)}},
	} {
		tt.dialect.Dialect = sqltext.Dialect{Param: sqltext.Question}
		db := Database{Dialect: tt.dialect}
		s := db.query("")
		db.where(s, tt.f, nil)
		if s.SQL() != tt.want || !slices.Equal(s.Args, tt.args) {
			t.Errorf("%s: %s %v", name, s.SQL(), s.Args)
		}
	}
}

// What an instance has announced is decoded once, as long as it says the same; callers may change what they get.
func TestInstancesAreDecodedOnce(t *testing.T) {
	t.Parallel()
	row := func(id, routes string) []any { return []any{id, true, int64(9), int64(1), int64(2), routes} }
	a := &answers{rows: map[string][][]any{"FROM outrider_instance": {row("a", `[{"route":"x"}]`), row("b", "[]")}}}
	o := a.store(nil)
	for range 2 {
		got, err := o.Instances(t.Context())
		if err != nil || len(got) != 2 || got[0].Left != 9*time.Microsecond || len(got[0].Routes) != 1 || got[0].Routes[0].Route != "x" || len(got[1].Routes) != 0 {
			t.Fatalf("%+v, %v", got, err)
		}
		got[0].Routes[0].Route = "changed by the caller"
	}
	before := o.announced.Load().of("a").routes
	if _, err := o.Instances(t.Context()); err != nil || &o.announced.Load().of("a").routes[0] != &before[0] {
		t.Errorf("what has not changed was decoded again, %v", err)
	}
	a.rows["FROM outrider_instance"] = [][]any{row("a", `[{"route":"y"}]`), row("c", "{")}
	if _, err := o.Instances(t.Context()); err == nil || !strings.Contains(err.Error(), "routes of an instance") {
		t.Errorf("half an object: %v", err)
	}
	a.rows["FROM outrider_instance"] = a.rows["FROM outrider_instance"][:1]
	if got, err := o.Instances(t.Context()); err != nil || got[0].Routes[0].Route != "y" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestFailuresAreCounted(t *testing.T) {
	t.Parallel()
	first, _ := FailuresOf("r")
	names := [][]any{{first + 1}, {first + 2}, {first + 3}}
	rows := map[string][][]any{
		"DISTINCT failure": names,
		"AS seen":          {{first + 1, 5}, {first + 2, 9}, {first + 3, 9}},
		"GROUP BY status":  {{"dead", 2, int64(30), int64(40)}, {"held", 1, int64(20), int64(35)}},
		"ORDER BY slot":    {{"r", "base64:AA==", "late"}},
	}
	a := &answers{rows: rows}
	got, more, err := a.store(nil).CountFailures(t.Context(), "r", 2)
	if err != nil || !more || len(got) != 2 || got[0].Name != first+2 || got[1].Name != first+3 {
		t.Fatalf("%+v, more %v, %v: the largest come first, and of equal ones the one with the smaller name", got, more, err)
	}
	if f := got[0]; f.Count != 3 || f.ByStatus["dead"] != 2 || f.ByStatus["held"] != 1 || f.First.UnixMicro() != 20 || f.Last.UnixMicro() != 40 || f.Type != "\x00" || f.More {
		t.Errorf("counted %+v", f)
	}
	if got, _, err := a.store(nil).CountFailures(t.Context(), "another", 9); err != nil || len(got) != 0 {
		t.Errorf("names of another route: %+v, %v", got, err)
	}
	rows["GROUP BY status"] = [][]any{{"dead", math.MaxInt32, int64(30), int64(40)}}
	rows["min(e.first)"] = [][]any{{(*int64)(nil), (*int64)(nil)}}
	if got, _, err := a.store(nil).CountFailures(t.Context(), "", 9); err != nil || len(got) != 3 || !got[0].More || got[0].First.UnixMicro() != 30 {
		t.Errorf("beyond the limit, with ends that have gone meanwhile: %+v, %v", got, err)
	}
	rows["GROUP BY status"] = nil
	rows["failure IS NULL"] = [][]any{{"r", "dead", "t", "7 is late", 2, int64(1), int64(2)}, {"r", "held", "t", "8 is late", 3, int64(0), int64(9)}}
	unnamed, more, err := a.store(func(db *Database) { db.Unnamed = true }).CountFailures(t.Context(), "r", 9)
	if err != nil || more || len(unnamed) != 1 || unnamed[0].Count != 5 || unnamed[0].First.UnixMicro() != 0 || unnamed[0].Last.UnixMicro() != 9 {
		t.Errorf("of a former version: %+v, %v, %v", unnamed, more, err)
	}
	for _, fails := range []string{"DISTINCT", "AS seen", "GROUP BY status"} {
		if got, _, err := (&answers{rows: rows, fails: fails}).store(nil).CountFailures(t.Context(), "", 9); !errors.Is(err, errBroken) || got != nil {
			t.Errorf("%s: %+v, %v", fails, got, err)
		}
	}
}

func TestVersionsOfMigrations(t *testing.T) {
	t.Parallel()
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	files := fstest.MapFS{"migrations/00010_c.sql": file("-- +goose Up\nTEN;\n-- +goose Down\nDOWN;"), "migrations/00002_b.sql": file("-- first\n-- +goose Up\nTWO;\n\n"), "migrations/readme": file("no")}
	versions, err := Versions(files)
	if want := []Version{{2, "TWO;"}, {10, "TEN;"}}; err != nil || !slices.Equal(versions, want) {
		t.Errorf("%+v, %v", versions, err)
	}
	var b strings.Builder
	if err := PrintVersions(&b, files, "v", strings.ToLower); err != nil || b.String() != "\n-- Version 2\ntwo;\n"+Reached("v", 2)+"\n-- Version 10\nten;\n"+Reached("v", 10) {
		t.Errorf("printed %q, %v", b.String(), err)
	}
	for name, bad := range map[string]fstest.MapFS{"none": {}, "no number": {"migrations/first.sql": file("")}} {
		if n, err := Newest(bad); err == nil || n != 0 {
			t.Errorf("%s: %d, %v", name, n, err)
		}
	}
	for want, tt := range map[string]struct {
		files   fs.ReadFileFS
		version error
	}{"": {files, nil}, "store: read the version of the state tables: broken": {files, errBroken}, "store: read the version of the state tables: no migrations": {fstest.MapFS{}, nil}} {
		o := (&answers{}).store(func(db *Database) {
			db.Migrations, db.Version = tt.files, func(context.Context) (int64, error) { return 2, tt.version }
		})
		if present, newest, err := o.StateVersion(t.Context()); want == "" && (err != nil || present != 2 || newest != 10) || want != "" && (err == nil || err.Error() != want) {
			t.Errorf("%q: %d, %d, %v", want, present, newest, err)
		}
	}
}

func TestLanesAreExamined(t *testing.T) {
	t.Parallel()
	lane := func(owner string, alive bool, held, dead int) adapters.LaneStatus {
		return adapters.LaneStatus{Owner: owner, Alive: alive, Held: held, Dead: dead}
	}
	for name, tt := range map[string]struct {
		lanes             []adapters.LaneStatus
		instances, parked string
		levels            [2]adapters.Level
	}{
		"none":   {nil, "none is running", "none is dead or held", [2]adapters.Level{}},
		"works":  {[]adapters.LaneStatus{lane("d", true, 0, 0), lane("b", true, 0, 0), lane("c", true, 0, 0), lane("a", true, 0, 0), lane("", false, 0, 0)}, "working: a, b, c, d", "none is dead or held", [2]adapters.Level{}},
		"gone":   {[]adapters.LaneStatus{lane("b", false, 1, 0), lane("a", true, 1, 3)}, "working: a; ended without releasing its lanes: b", "3 dead, and 2 held with their groups behind them", [2]adapters.Level{adapters.LevelWarning, adapters.LevelWarning}},
		"no one": {[]adapters.LaneStatus{lane("b", false, 0, 0)}, "none is running; ended without releasing its lanes: b", "none is dead or held", [2]adapters.Level{adapters.LevelWarning, 0}},
	} {
		f := ExamineLanes(tt.lanes)
		if len(f) != 2 || f[0].Text != tt.instances || f[1].Text != tt.parked || f[0].Level != tt.levels[0] || f[1].Level != tt.levels[1] {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

func TestLanesAreRead(t *testing.T) {
	t.Parallel()
	row := func(beyond, anchor string) []any {
		return []any{"r", 4, "i", true, int64(3), int64(8), int64(70), "1:2:", "", int64(0), int64(0), beyond, "c", "n", anchor, "f", int64(5), 1, 2, 3, 4}
	}
	a := &answers{rows: map[string][][]any{"FROM outrider_cursor": {row("[71]", "3:5:00000000000000ff:70:9:by id")}}}
	got, err := a.store(nil).Lanes(t.Context())
	if err != nil || len(got) != 1 || !slices.Equal(got[0].Beyond, []int64{71}) || got[0].Cursor.Anchor.Sum != 255 || got[0].Table.Lanes != "by id" || got[0].Epoch != 8 || got[0].Dead != 4 {
		t.Errorf("%+v, %v", got, err)
	}
	for text, bad := range map[string][]any{"beyond is not an array": row("x", ""), "anchor": row("[]", "x")} {
		a.rows["FROM outrider_cursor"] = [][]any{bad}
		if _, err := a.store(nil).Cursors(t.Context(), nil); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", text, err)
		}
	}
	a.sent = nil
	if got, err := a.store(nil).Cursors(t.Context(), []string{}); got != nil || err != nil || a.sent != nil {
		t.Errorf("of no routes: %v, %v, %q", got, err, a.sent)
	}
	counts := &answers{rows: map[string][][]any{"": {{"r", 4, 1, 0, 0, 2}, {"r", 4, 0, 2, 0, 5}, {"s", 4, 1, 1, 1, 1}}}}
	all, err := counts.store(nil).CountLanes(t.Context())
	if want := (adapters.LaneCounts{Retrying: 1, Waiting: 2, Dead: 7}); err != nil || all[adapters.LaneRef{Route: "r", Slot: 4}] != want || len(all) != 2 {
		t.Errorf("%+v, %v", all, err)
	}
}

// What is written as JSON comes back, whatever bytes it has.
func TestTextsComeBack(t *testing.T) {
	t.Parallel()
	text := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }))
	rapid.Check(t, func(t *rapid.T) {
		route := adapters.RunningRoute{Route: text.Draw(t, "route"), Unit: text.Draw(t, "unit")}
		if got, err := DecodeRoutes(EncodeRoutes([]adapters.RunningRoute{route})); err != nil || fmt.Sprint(got) != fmt.Sprint([]adapters.RunningRoute{route}) {
			t.Fatalf("routes %+v became %+v, %v", route, got, err)
		}
		p := adapters.Pause{Group: text.Draw(t, "group"), Address: text.Draw(t, "address")}
		kept := adapters.Pause{Address: PauseAddress(p), Group: PackGroup(p.Group)}
		if UnpackPause(&kept); p.Group != "" && (kept.Group != p.Group || kept.Address != "") || p.Group == "" && kept != p {
			t.Fatalf("pause %+v became %+v", p, kept)
		}
		o := adapters.Operation{Kind: adapters.OperationSeek, Routes: []string{route.Route, ""}, Sources: []string{route.Unit}, To: p.Address}
		var got adapters.Operation
		if err := decodeOperation(&got, encodeSubject(&o), "{}"); err != nil || !slices.Equal(got.Routes, o.Routes) || !slices.Equal(got.Sources, o.Sources) || got.To != o.To {
			t.Fatalf("operation %+v became %+v, %v", o, got, err)
		}
	})
}
