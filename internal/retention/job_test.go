package retention

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/outriderhq/outrider/adapters"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// table is a source that notes what it is asked.
type table struct {
	adapters.Source
	steps []adapters.Retained // answers, one after the other
	err   error
	first chan struct{} // closed by the first step, if there is one

	mu    sync.Mutex
	asked int
}

func (*table) Table(context.Context) (adapters.Table, error) {
	return adapters.Table{Cluster: "here", Name: "mine"}, nil
}

func (*table) CheckRetention(context.Context, adapters.Retention) error { return nil }

func (t *table) Retain(_ context.Context, _ adapters.Retention, _ []adapters.RouteCursors) (adapters.Retained, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asked++
	if t.asked == 1 && t.first != nil {
		close(t.first)
	}
	if t.err != nil || len(t.steps) == 0 {
		return adapters.Retained{}, t.err
	}
	step := t.steps[0]
	t.steps = t.steps[1:]
	return step, nil
}

// store is a state store of which only the lanes matter.
type store struct {
	adapters.OperatorStore
	lanes []adapters.LaneStatus
}

func (s *store) Cursors(context.Context, []string) ([]adapters.LaneStatus, error) {
	return s.lanes, nil
}

// lane is a settled lane, unless the change says otherwise.
func lane(route string, slot int, change func(*adapters.LaneStatus)) adapters.LaneStatus {
	l := adapters.LaneStatus{LaneRef: adapters.LaneRef{Route: route, Slot: slot}, Cursor: adapters.Cursor{Position: 9},
		Table: adapters.Table{Cluster: "here", Name: "mine"}, UpdatedAt: time.Unix(1, 0)}
	if change != nil {
		change(&l)
	}
	return l
}

func job(t *table, lanes ...adapters.LaneStatus) (*Job, *bytes.Buffer) {
	var log bytes.Buffer
	return New(Config{
		Source: "app", Table: t, State: &store{lanes: lanes}, Routes: []string{"a", "b"}, Others: map[string]adapters.Source{"elsewhere": nil},
		Every: time.Hour, WarnAfter: time.Minute, Logger: slog.New(slog.NewTextHandler(&log, nil)),
	}), &log
}

// TestG1_TheLogAdvisesToForgetNoLiveRoute: what somebody has configured, or works, is
// not to be forgotten.
func TestG1_TheLogAdvisesToForgetNoLiveRoute(t *testing.T) {
	t.Parallel()
	j, _ := job(&table{}, lane("gone", 3, nil), lane("alive", 3, func(l *adapters.LaneStatus) { l.Owner, l.Alive = "relay-7", true }))
	j.Others["twin"] = &table{} // reads the same table
	if _, err := j.settled(t.Context()); err != nil {
		t.Fatal(err)
	}
	for route, want := range map[string]string{"a": "Resume", "twin": "Resume", "alive": "relay-7", "gone": "route forget gone"} {
		if text := j.remedy(route); !strings.Contains(text, want) || route != "gone" && strings.Contains(text, "forget") {
			t.Errorf("%s: %s", route, text)
		}
	}
}

// TestG1_WhoReadsTheTableThroughAnotherSource holds its rows, run or not; who reads a
// table of the same name elsewhere does not, unless this one was rebased from there.
func TestG1_WhoReadsTheTableThroughAnotherSource(t *testing.T) {
	t.Parallel()
	elsewhere := func(l *adapters.LaneStatus) { l.Table.Cluster = "there" }
	routesOf := func(lanes ...adapters.LaneStatus) (names []string) {
		j, _ := job(&table{}, lanes...)
		j.Others["twin"] = &table{}
		routes, err := j.settled(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range routes {
			names = append(names, r.Route)
		}
		slices.Sort(names)
		return names
	}
	if got := routesOf(lane("theirs", 1, elsewhere)); !slices.Equal(got, []string{"a", "b", "twin"}) {
		t.Errorf("the table is kept for %v", got)
	}
	rebased := lane("a", 1, func(l *adapters.LaneStatus) { l.Former = "there" })
	if got := routesOf(lane("left", 1, elsewhere), rebased); !slices.Equal(got, []string{"a", "b", "left", "twin"}) {
		t.Errorf("after a rebase from there it is kept for %v", got)
	}
}

// TestG1_WhoseCursorsCount: in doubt a route counts, and what it has settled does
// not.
func TestG1_WhoseCursorsCount(t *testing.T) {
	t.Parallel()
	source := func(name string) func(*adapters.LaneStatus) {
		return func(l *adapters.LaneStatus) { l.Table.Name = name }
	}
	j, _ := job(&table{},
		lane("a", 3, nil),
		lane("a", 4, func(l *adapters.LaneStatus) { l.UpdatedAt = time.Time{} }),
		lane("a", 5, func(l *adapters.LaneStatus) { l.Table.Cluster = "there" }),
		lane("a", 6, source("")), lane("a", 7, source("its former name")),
		lane("elsewhere", 3, source("")), lane("moved", 3, source("other")),
		lane("removed", 3, nil), lane("unknown", 3, source("")),
		lane("renewed", 3, func(l *adapters.LaneStatus) { l.Table.Cluster = "there" }),
	)
	j.Others["renewed"] = nil // it used to read the table of the same name in another cluster
	routes, err := j.settled(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]int{}
	for _, r := range routes {
		got[r.Route] = []int{}
		for slot, c := range r.Cursors {
			if c != nil {
				got[r.Route] = append(got[r.Route], slot)
			}
		}
	}
	want := map[string][]int{"a": {3, 6}, "b": {}, "removed": {3}, "unknown": {3}}
	if len(got) != len(want) {
		t.Errorf("routes: %v, want %v", got, want)
	}
	for route, slots := range want {
		if !slices.Equal(got[route], slots) {
			t.Errorf("route %s has settled %v, want %v", route, got[route], slots)
		}
	}
}

func TestPassTakesStepsUntilNothingMoreCanGo(t *testing.T) {
	t.Parallel()
	held := map[string]time.Duration{"b": time.Second}
	tab := &table{steps: []adapters.Retained{
		{Rows: 5, More: true, Oldest: time.Hour}, {Rows: 2, Partitions: 1, More: true}, {Rows: 1, Oldest: time.Minute, Held: held},
		{Rows: 7, More: true, Busy: true, Oldest: time.Hour},
	}}
	j, _ := job(tab)
	done, err := j.Pass(t.Context())
	if err != nil || done.Rows != 8 || done.Partitions != 1 || done.Oldest != time.Minute || done.Held["b"] == 0 {
		t.Errorf("%+v, %v", done, err)
	}
	if s := j.Stats(); s.Rows != 8 || s.Partitions != 1 || s.Oldest != time.Minute || s.Source != "app" || s.Errors != 0 {
		t.Errorf("stats: %+v", s)
	}
	if done, err = j.Pass(t.Context()); err != nil || !done.Busy || len(tab.steps) != 0 {
		t.Errorf("a step that gave up: %+v, %v", done, err)
	}
	if s := j.Stats(); s.Rows != 15 || s.Oldest != time.Minute {
		t.Errorf("stats after a step that gave up: %+v", s)
	}
	j.Retention.DryRun = true
	tab.steps = []adapters.Retained{{Rows: 3}}
	if done, err = j.Pass(t.Context()); err != nil || done.Rows != 3 || j.Stats().Rows != 15 {
		t.Errorf("a dry run: %+v, %v, stats %+v", done, err, j.Stats())
	}
}

func TestWhatHoldsBackForLongIsTold(t *testing.T) {
	t.Parallel()
	long := adapters.Retained{Held: map[string]time.Duration{"b": 2 * time.Minute, "a": time.Second}, Stray: 3}
	tab := &table{steps: []adapters.Retained{long, long}}
	j, log := job(tab)
	for range 2 {
		_, err := j.Pass(t.Context())
		j.report(err)
	}
	text := log.String()
	if strings.Count(text, "a route holds back") != 1 || !strings.Contains(text, "route=b") || strings.Contains(text, "route forget") ||
		strings.Count(text, "default partition") != 1 {
		t.Errorf("the log says:\n%s", text)
	}
	log.Reset()
	tab.err = errors.New("no route to host")
	for range 3 {
		_, err := j.Pass(t.Context())
		j.report(err)
	}
	tab.err = nil
	_, err := j.Pass(t.Context())
	j.report(err)
	if text = log.String(); strings.Count(text, "retention fails") != 1 || strings.Count(text, "succeeds again") != 1 {
		t.Errorf("the log says:\n%s", text)
	}
	if s := j.Stats(); s.Errors != 3 {
		t.Errorf("stats: %+v", s)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	t.Parallel()
	tab := &table{first: make(chan struct{})}
	j, _ := job(tab)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); j.Run(ctx) }()
	<-tab.first
	cancel()
	<-ended
	if s := j.Stats(); s.Errors != 0 {
		t.Errorf("stats: %+v", s)
	}
}

// A row that is dated in the future, and partitions that cannot be dropped, are told
// with what to do, once in a while.
func TestWhatIsInTheWayIsTold(t *testing.T) {
	t.Parallel()
	blocked := adapters.Retained{Waiting: 3, InTheWay: "pid 17 is idle",
		DatedAhead: adapters.DatedAhead{Slot: 4, Position: 99, By: time.Hour, Fix: "UPDATE it"}}
	tab := &table{steps: []adapters.Retained{blocked, blocked, blocked, {Partitions: 3}}}
	j, log := job(tab)
	pass := func() string {
		log.Reset()
		_, err := j.Pass(t.Context())
		j.report(err)
		return log.String()
	}
	if text := pass(); !strings.Contains(text, "UPDATE it") || !strings.Contains(text, "position=99") || strings.Contains(text, "pid 17") {
		t.Errorf("at first the log says:\n%s", text)
	}
	j.blocked = j.blocked.Add(-2 * j.WarnAfter)
	if text := pass(); !strings.Contains(text, "pid 17") || strings.Contains(text, "UPDATE it") {
		t.Errorf("later it says:\n%s", text)
	}
	if text := pass(); text != "" {
		t.Errorf("right after that it says:\n%s", text)
	}
	if s := j.Stats(); s.Waiting != 3 || s.DatedAhead.Position != 99 {
		t.Errorf("stats: %+v", s)
	}
	if pass(); !j.blocked.IsZero() || j.Stats().Waiting != 0 {
		t.Errorf("after they were dropped: %+v", j.Stats())
	}
}
