package assembly

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outriderhq/outrider/adapters/layout"
	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/internal/testenv"
)

// built is a builder of a configuration with a source app, a destination out and a route orders.
func built(t *testing.T, source string, more ...string) *Builder {
	t.Helper()
	cfg, err := config.Parse("t", []byte(strings.Join(append(more,
		"sources: {app: "+source+"}", "destinations: {out: {type: discard}}", "routes: {orders: {from: app, to: out}}"), "\n")), nil)
	if err != nil {
		t.Fatal(err)
	}
	return NewBuilder(cfg, OptionsOf(nil))
}

func TestALocationOfStateBelongsToOneDatabase(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := built(t, "{type: sqlite, path: "+filepath.Join(dir, "a.db")+"}")
	for location, want := range map[string]struct {
		key   string
		pools bool
		sql   string
	}{
		"postgres://a@127.0.0.1/x":   {"postgres://a@127.0.0.1/x", true, "CREATE TABLE"},
		"postgresql://a@127.0.0.1/x": {"postgresql://a@127.0.0.1/x", true, "CREATE TABLE"},
		"mysql://a@127.0.0.1/x":      {"mysql://a@127.0.0.1/x", false, "CREATE TABLE"},
		"mariadb://a@127.0.0.1/x":    {"mariadb://a@127.0.0.1/x", false, "CREATE TABLE"},
		"sqlite:" + dir + "/./s.db":  {filepath.Join(dir, "s.db"), false, "-- Nothing"},
		dir + "/s.db":                {filepath.Join(dir, "s.db"), false, "-- Nothing"},
	} {
		k := b.stateAt(location)
		if k.Key != want.key || k.Pools != want.pools || k.Open == nil {
			t.Errorf("%s: key %s, pools %v", location, k.Key, k.Pools)
		}
		if text, err := k.InitSQL(Grantees{}); err != nil || !strings.Contains(text, want.sql) {
			t.Errorf("%s: %v\n%s", location, err, text)
		}
		if err := k.Exists(); (err != nil) != (want.sql == "-- Nothing") {
			t.Errorf("%s: exists: %v", location, err)
		}
	}
}

func TestTheStateOfASource(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	for _, test := range []struct{ source, state, want string }{
		{"{type: sqlite, path: " + path + "}", "", path},
		{`{type: postgres, url: "postgres://a@127.0.0.1/x"}`, "", "postgres://a@127.0.0.1/x"},
		{`{type: postgres, url: "postgres://a@127.0.0.1/x", layout: watermill, topic: t, client: watermill}`, "", "postgres://a@127.0.0.1/x"},
		{`{type: mysql, url: "mysql://a@127.0.0.1/x", layout: outbox-framework}`, "", "mysql://a@127.0.0.1/x"},
		{"{type: sqlite, path: " + path + "}", `state: {url: "mysql://a@127.0.0.1/x"}`, "mysql://a@127.0.0.1/x"},
		{`{type: mongodb, url: "mongodb://127.0.0.1/x"}`, `state: {url: "postgres://a@127.0.0.1/x"}`, "postgres://a@127.0.0.1/x"},
		{`{type: http, listen: "127.0.0.1:8090"}`, "state: {url: " + path + "}", path},
	} {
		if got, err := built(t, test.source, test.state).stateLocation("app"); err != nil || got != test.want {
			t.Errorf("%s %s: %s, %v", test.source, test.state, got, err)
		}
	}
	if _, err := built(t, "{type: sqlite, path: "+path+"}").StateOf("other"); !errors.Is(err, errNoState) {
		t.Errorf("an unknown source: %v", err)
	}
}

func TestConnectionsThatWereCut(t *testing.T) {
	t.Parallel()
	for _, err := range cuts {
		if !WasCut(fmt.Errorf("read: %w", err)) {
			t.Errorf("%v is no cut", err)
		}
	}
	for _, err := range []error{nil, context.Canceled, syscall.ECONNREFUSED, &pgconn.PgError{Code: "28P01"}, errors.New("password")} {
		if WasCut(err) {
			t.Errorf("%v is a cut", err)
		}
	}
}

// A database that cannot be reached is one problem, however many routes need it.
func TestProblemsOfOneCauseAreReportedOnce(t *testing.T) {
	t.Parallel()
	address := testenv.Refused(t)
	_, refused := pgconn.Connect(t.Context(), "postgres://a@"+address+"/x?sslmode=disable")
	text, fix, ok := ConnectionProblem(fmt.Errorf("source: %w", refused))
	if !ok || text == "" || fix == "" {
		t.Fatalf("%v: %q, %q, %v", refused, text, fix, ok)
	}
	if _, _, ok := ConnectionProblem(io.ErrClosedPipe); ok {
		t.Error("any error is a problem of a connection")
	}
	other := errors.New("x")
	if got := distinct([]error{refused, other, refused, other}); !reflect.DeepEqual(got, []error{refused, other, other}) {
		t.Errorf("distinct: %v", got)
	}
}

func TestQueuesAreThoseOfTheConfiguration(t *testing.T) {
	t.Parallel()
	custom := `{type: postgres, url: "postgres://a@127.0.0.1/x", layout: custom, table: jobs, delivered: delete,
  queue: {key: id, type: kind, payload: body, status: state, created: at, claimed: since, statuses: {dead: failed}}}`
	for _, test := range []struct {
		source string
		tables []string
		check  func(layout.Queue) bool
	}{
		{custom, []string{"jobs"}, func(q layout.Queue) bool {
			return q.Columns.Key == "id" && q.Statuses.Dead == "failed" && q.Statuses.Pending == "pending" && q.DoneIsDeleted && !q.OldIsDeleted
		}},
		{`{type: postgres, url: "postgres://a@127.0.0.1/x", layout: outbox-framework, retention: {}}`, []string{"outbox_event"},
			func(q layout.Queue) bool { return q.OldIsDeleted && !q.DoneIsDeleted }},
		{`{type: postgres, url: "postgres://a@127.0.0.1/x", layout: outbox-framework, table: "s.mine"}`, []string{"s.mine"}, nil},
		{`{type: postgres, url: "postgres://a@127.0.0.1/x", layout: flowcatalyst, tables: {events: e}}`, []string{"e", "outbox_dispatch_jobs"}, nil},
		{`{type: mysql, url: "mysql://a@127.0.0.1/x", layout: flowcatalyst, tables: {events: e}}`, []string{"e", "outbox_dispatch_jobs"}, nil},
	} {
		b := built(t, test.source)
		var source *config.TableSource
		switch s := b.Config.Sources["app"].(type) {
		case *config.Postgres:
			source = &s.TableSource
		case *config.MySQL:
			source = &s.TableSource
		}
		retained := b.Source("app").Retention != nil
		q, tables := queueOf(source, retained)
		names := make([]string, len(tables))
		for i, table := range tables {
			names[i] = table.Name
		}
		if !reflect.DeepEqual(names, test.tables) || test.check != nil && !test.check(q) {
			t.Errorf("%s: tables %v, %+v", test.source, names, q)
		}
	}
}

func TestWhatEachSourceCanDo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for source, want := range map[string]string{
		`{type: postgres, url: "postgres://a@127.0.0.1/x"}`:                                                            "log hot pools init publish",
		`{type: postgres, url: "postgres://a@127.0.0.1/x", wake: notify, retention: {}}`:                               "log hot pools init publish wake retention",
		`{type: postgres, url: "postgres://a@127.0.0.1/x", layout: crablet}`:                                           "log pools leader lock init publish indexes progress",
		`{type: postgres, url: "postgres://a@127.0.0.1/x", layout: outbox-framework, leader: true}`:                    "queue hot pools leader init publish indexes",
		`{type: postgres, url: "postgres://a@127.0.0.1/x", layout: watermill, topic: t, client: watermill}`:            "pools",
		`{type: mysql, url: "mysql://a@127.0.0.1/x", layout: outbox-framework, leader: true, leader_lock: l}`:          "queue read leader lock init adds publish",
		"{type: sqlite, path: " + dir + "/a.db}":                                                                       "log read init publish",
		"{type: sqlite, path: " + dir + "/a.db, layout: outbox-framework, retention: {}}":                              "queue read init publish retention",
		"{type: subscriber, topic: t}\nstate: {url: " + dir + "/s.db}":                                                 "supplied",
		"{type: http, listen: \"127.0.0.1:8090\"}\nstate: {url: " + dir + "/s.db}":                                     "",
		"{type: mongodb, url: \"mongodb://127.0.0.1/x\", retention: {}, leader: true}\nstate: {url: " + dir + "/s.db}": "queue leader init retention",
	} {
		section, state, _ := strings.Cut(source, "\n")
		k := built(t, section, state).Source("app")
		var got []string
		for _, one := range []struct {
			name string
			can  bool
		}{
			{"log", k.Log}, {"queue", k.Queue}, {"hot", k.Hot}, {"read", k.Read}, {"supplied", k.Supplied}, {"pools", k.Pools}, {"leader", k.Leader},
			{"lock", k.Lock != nil}, {"init", k.Init != nil}, {"adds", k.Adds != nil}, {"publish", k.Publish != nil}, {"indexes", k.Indexes != nil},
			{"wake", k.Wake != nil && k.WakeSQL != nil}, {"progress", k.Progress != nil}, {"retention", k.Retention != nil},
		} {
			if one.can {
				got = append(got, one.name)
			}
		}
		if strings.Join(got, " ") != want || k.Open == nil {
			t.Errorf("%s: %v, want %s", section, got, want)
		}
	}
}
