package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/sqlite"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/config"
)

// site is the console of a relay whose state is in an SQLite file. Its process is what the fields of relay say.
type site struct {
	*Console
	relay *Relay
	cfg   atomic.Pointer[config.Config]
	path  string
}

func siteConfig(t *testing.T, path, admin string) *config.Config {
	t.Helper()
	cfg, err := config.Parse("site.yaml", fmt.Appendf(nil, `
%s
sources: {app: {type: sqlite, path: %q}}
destinations: {nowhere: {type: discard}}
routes: {orders: {from: app, to: nowhere, match: {types: ["order.*"]}}, other: {from: app, to: nowhere}}
`, admin, path), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{path: filepath.Join(t.TempDir(), "site.db")}
	s.cfg.Store(siteConfig(t, s.path, "admin: {listen: off}"))
	if _, err := operate.Init(t.Context(), s.cfg.Load()); err != nil {
		t.Fatal(err)
	}
	s.relay = &Relay{Config: s.cfg.Load, Stats: func() []adapters.RouteStats { return nil }, Instance: func() string { return "here" }}
	s.relay.Options.Logger = slog.New(slog.DiscardHandler)
	s.renewed(t)
	return s
}

// renewed makes the console again, after a change of the relay.
func (s *site) renewed(t *testing.T) {
	t.Helper()
	c := NewConsole(*s.relay)
	s.Console = c
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

func (s *site) exec(t *testing.T, statements ...string) {
	t.Helper()
	db, err := sqlite.Open(s.path)
	for _, statement := range statements {
		if err == nil {
			_, err = db.ExecContext(t.Context(), statement)
		}
	}
	if err = errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestMaskedPayloadsKeepNamesAndShape(t *testing.T) {
	t.Parallel()
	for payload, want := range map[string]string{
		`{"a": 1, "b": {"c": [true, null, "x"]}}`: `{"a":"***","b":{"c":["***","***","***"]}}`,
		`[]`: `[]`, `{}`: `{}`, `"secret"`: `"***"`, `17`: `"***"`, ` [1] `: `["***"]`,
		`secret`: "", ``: "", `{"a": 1} {"b": 2}`: "", `{"a":`: "",
	} {
		masked, ok := MaskedJSON([]byte(payload))
		text, err := json.Marshal(masked)
		if err != nil || ok != (want != "") || ok && string(text) != want {
			t.Errorf("%s is shown as %s, %v; want %s", payload, text, ok, want)
		}
	}
}

// A command trusts the relay at the admin address only if that proves that it reads the same state, and sends no token before.
func TestOnlyARelayOfTheSameStateIsAsked(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.exec(t, `INSERT INTO outrider_instance (id, lease_until, joined_at, renewed_at) VALUES ('here', 9e15, 1700000000000000, 1), ('there', 9e15, 1700000000000001, 1)`)
	other := newSite(t)
	other.exec(t, `INSERT INTO outrider_instance (id, lease_until, joined_at, renewed_at) VALUES ('here', 9e15, 1600000000000000, 1)`)
	nameless := newSite(t)
	nameless.relay.Instance = nil
	nameless.renewed(t)
	unknown := newSite(t)
	if got := s.Prove(t.Context(), strings.Repeat("x", challengeMost+1)); got != "" {
		t.Errorf("a challenge that is too long was answered with %s", got)
	}
	for name, test := range map[string]struct {
		relay  *Console // nil: it answers without a proof
		status int
		want   error
		text   string
	}{
		"same state":     {relay: s.Console, status: http.StatusOK},
		"it fails":       {relay: s.Console, status: http.StatusTeapot, text: "the relay at the admin address answers /routes: 418 I'm a teapot"},
		"another state":  {relay: other.Console, status: http.StatusOK, want: ErrOtherRelay},
		"not joined":     {relay: unknown.Console, status: http.StatusOK, want: ErrOtherRelay},
		"no instance":    {relay: nameless.Console, status: http.StatusOK, want: ErrOtherRelay},
		"an older build": {status: http.StatusOK, want: ErrOtherRelay},
	} {
		t.Run(name, func(t *testing.T) {
			asked, early := false, false
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/livez" {
					early = r.Header.Get("Authorization") != ""
					if test.relay != nil {
						w.Header().Set(ProofHeader, test.relay.Prove(r.Context(), r.Header.Get(ChallengeHeader)))
					}
					return
				}
				asked = true
				w.WriteHeader(test.status)
				fmt.Fprint(w, `{"routes": [{"route": "orders", "stopped": "no table"}]}`)
			}))
			defer server.Close()
			cfg := siteConfig(t, s.path, "admin: {listen: "+strings.TrimPrefix(server.URL, "http://")+"}")
			cfg.Admin.Tokens = []config.Secret{config.NewSecret("token")}
			op, err := operate.NewOperator(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = op.Close() }()
			routes, err := RunningRoutes(t.Context(), op)
			switch {
			case test.want != nil && (!errors.Is(err, test.want) || asked), test.text != "" && (err == nil || err.Error() != test.text):
				t.Errorf("%v, asked %v; want %v%s", err, asked, test.want, test.text)
			case test.want == nil && test.text == "" && (err != nil || routes["orders"].Stopped != "no table"):
				t.Errorf("%+v, %v", routes, err)
			case early:
				t.Error("the challenge had a token")
			}
		})
	}
	for _, admin := range []string{"admin: {listen: off}", `admin: {listen: "127.0.0.1:1"}`} {
		op, err := operate.NewOperator(t.Context(), siteConfig(t, s.path, admin))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := RunningRoutes(t.Context(), op); !errors.Is(err, ErrNoRelay) {
			t.Errorf("%s: %v", admin, err)
		}
		_ = op.Close()
	}
}

// The console follows the configuration in effect, says when its state cannot be reached, and ends for good.
func TestTheConsoleFollowsTheConfiguration(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	used := func() (op *operate.Operator, err error) {
		return op, s.Use(t.Context(), func(o *operate.Operator) error { op = o; return nil })
	}
	first, err := used()
	again, err2 := used()
	if err != nil || err2 != nil || first != again {
		t.Errorf("the operator was opened twice: %v, %v", err, err2)
	}
	former := s.cfg.Load()
	s.cfg.Store(siteConfig(t, s.path, "admin: {listen: off}"))
	if next, err := used(); err != nil || next == first {
		t.Errorf("after a reload it is the former operator, %v", err)
	}
	s.cfg.Store(siteConfig(t, filepath.Join(t.TempDir(), "no", "such.db"), "admin: {listen: off}"))
	if _, err := used(); !errors.Is(err, ErrUnavailable) {
		t.Errorf("without a state store: %v", err)
	}
	if snap := s.Status(t.Context()); snap.Problem == nil || len(snap.Routes) != 2 {
		t.Errorf("status without a state store: %+v", snap)
	}
	s.cfg.Store(former)
	if _, err := used(); err != nil {
		t.Errorf("when it is back: %v", err)
	}
	failed := errors.New("no")
	if err := s.Use(t.Context(), func(*operate.Operator) error { return failed }); !errors.Is(err, failed) {
		t.Errorf("the error of a call: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := used(); !errors.Is(err, ErrEnded) {
		t.Errorf("after the end: %v", err)
	}
}

// A reload is audited once it has been done, and done even if it cannot be audited.
// A console that opens before `outrider init` leaves no file behind: the start would then say that a table is missing, not the file.
func TestTheConsoleCreatesNoFile(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	path := filepath.Join(t.TempDir(), "missing.db")
	s.cfg.Store(siteConfig(t, path, "admin: {listen: off}"))
	err := s.Use(t.Context(), func(*operate.Operator) error { return nil })
	if _, statErr := os.Stat(path); !errors.Is(err, ErrUnavailable) || !errors.Is(statErr, fs.ErrNotExist) {
		t.Errorf("got %v; the file: %v", err, statErr)
	}
}

func TestReloadsAreAudited(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	if err := s.Reload(t.Context(), "me"); !errors.Is(err, ErrNoReload) || s.Pending() != nil || s.Probe("orders", "x") {
		t.Errorf("a relay that can do nothing: %v, %v", err, s.Pending())
	}
	var fails error
	s.relay.Reload, s.relay.Pending = func(context.Context) error { return fails }, func() []string { return []string{"admin"} }
	s.renewed(t)
	fails = errors.New("a mistake in the file")
	if err := s.Reload(t.Context(), "me"); !errors.Is(err, fails) {
		t.Errorf("a reload that fails: %v", err)
	}
	fails = nil
	if err := s.Reload(t.Context(), "me"); err != nil || len(s.Pending()) != 1 {
		t.Errorf("a reload: %v, pending %v", err, s.Pending())
	}
	err := s.Use(t.Context(), func(op *operate.Operator) error {
		records, _, err := op.Audit(t.Context(), "", 10)
		if len(records) != 1 || records[0].Action != "reload" || records[0].By != "me" || records[0].Changed != 2 {
			t.Errorf("audited: %+v", records)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	s.cfg.Store(siteConfig(t, filepath.Join(t.TempDir(), "no", "such.db"), "admin: {listen: off}"))
	if err := s.Reload(t.Context(), "me"); err != nil {
		t.Errorf("a reload that cannot be audited: %v", err)
	}
}

// The status has the state store's and the process's knowledge, is kept for a second, and is made again after a change.
func TestStatusIsKeptUntilSomethingChanges(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	var made atomic.Int64
	s.relay.Stats = func() []adapters.RouteStats {
		made.Add(1)
		return []adapters.RouteStats{{Route: "orders", Delivered: 5, Stopped: "no table"}, {Route: "other"}}
	}
	s.renewed(t)
	first := s.Status(t.Context())
	if first.Problem != nil || len(first.Routes) != 2 || first.Routes[0].Route != "orders" || first.Stats["orders"].Delivered != 5 {
		t.Fatalf("%+v, want the stopped route first", first)
	}
	if cause := first.CauseOf(&first.Routes[0]); !strings.Contains(cause.Text, "no table") {
		t.Errorf("its cause is %+v", cause)
	}
	if err := s.Use(t.Context(), func(op *operate.Operator) error {
		_, err := op.Pause(t.Context(), adapters.Pause{Route: "other", By: "me", Reason: "because"})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	s.Changed()
	before := made.Load()
	_ = s.Status(t.Context())
	s.builds.Wait()
	if made.Load() == before {
		t.Error("after a change no new one was made")
	}
	if p := s.Status(t.Context()).Routes[1].Paused; p == nil || p.Reason != "because" {
		t.Errorf("the pause is shown as %+v", p)
	}
}

// A rate is of the time between two looks of the pages: a count for /metrics in between, which uses the same samples, leaves it alone.
func TestMetricsLeaveRatesAlone(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	var delivered atomic.Int64
	s.relay.Stats = func() []adapters.RouteStats {
		return []adapters.RouteStats{{Route: "orders", Delivered: delivered.Load()}, {Route: "other"}}
	}
	s.renewed(t)
	_ = s.Status(t.Context())
	delivered.Store(100)
	if err := s.gauges.count(t.Context(), s.Console); err != nil {
		t.Fatal(err)
	}
	s.Changed()
	_ = s.Status(t.Context())
	s.builds.Wait()
	if last := s.Status(t.Context()); last.Rates["orders"] <= 0 {
		t.Errorf("100 messages were delivered since the first look, and the rates are %v", last.Rates)
	}
}

// The latest rows come newest first, those that a route matches if it is named.
func TestLatestRows(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for i := range 6 {
		s.exec(t, fmt.Sprintf(`INSERT INTO outrider_outbox (id, type, message_group, payload) VALUES ('e%d', '%s', 'g', '{}')`, i, []string{"order.created", "user.created"}[i%2]))
	}
	for name, test := range map[string]struct {
		of   string
		opts TailOptions
		want string
	}{
		"a source": {"app", TailOptions{}, "e5 e4 e3 e2 e1 e0"}, "a route": {"orders", TailOptions{}, "e4 e2 e0"},
		"two": {"app", TailOptions{Max: 2}, "e5 e4"}, "a type": {"app", TailOptions{Types: "user.*"}, "e5 e3 e1"},
	} {
		rows, err := s.Latest(t.Context(), test.of, test.opts)
		var ids []string
		for _, r := range rows {
			ids = append(ids, r.ID)
		}
		if err != nil || strings.Join(ids, " ") != test.want {
			t.Errorf("%s: %v, %v; want %s", name, ids, err, test.want)
		}
	}
	if _, err := s.Latest(t.Context(), "none", TailOptions{}); err == nil {
		t.Error("there are rows of a source that does not exist")
	}
	if _, ok := errors.AsType[operate.Mistake](second(s.Latest(t.Context(), "app", TailOptions{Types: "[a"}))); !ok {
		t.Error("a pattern that is none was taken")
	}
}

func second[T any](_ T, err error) error { return err }
