package doctor

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/outbox"
)

func TestMemory(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	for _, tt := range []struct {
		budget int64
		routes int
		limit  int64
		text   string
		level  adapters.Level
	}{
		{64 * mib, 0, 0, "budget for messages 64 MiB, no limit of the process is known", adapters.LevelOK},
		{64 * mib, 0, 120 * mib, "limit of the process 120 MiB", adapters.LevelOK}, // 40 MiB, the budget, and a quarter of it
		{64 * mib, 0, 119 * mib, "limit of the process 119 MiB", adapters.LevelWarning},
		{64 * mib, 1024, 200 * mib, "limit of the process 200 MiB", adapters.LevelOK}, // and 80 KiB for each route
		{64 * mib, 1025, 200 * mib, "limit of the process 200 MiB", adapters.LevelWarning},
		{-1, 0, 0, "budget for messages 0 B", adapters.LevelOK},
	} {
		f := memoryFinding(tt.budget, tt.routes, tt.limit)
		if !strings.Contains(f.Text, tt.text) || f.Level != tt.level || (f.Fix != "") != (tt.level == adapters.LevelWarning) {
			t.Errorf("a budget of %d and a limit of %d: %+v", tt.budget, tt.limit, f)
		}
	}
}

// parse reads a configuration on a SQLite file; admin is the section of that name.
func parse(t *testing.T, file, admin string) *config.Config {
	t.Helper()
	cfg, err := config.Parse("test", fmt.Appendf(nil, "admin: {%s}\nsources: {app: {type: sqlite, path: %q}}\ndestinations: {log: {type: log}}\nroutes: {orders: {from: app, to: log}}\n",
		admin, file), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// levels are the levels of what was found, by part and subject.
func levels(found []Diagnosis) map[string]string {
	out := map[string]string{}
	for _, d := range found {
		out[d.Part+": "+d.Subject] = d.Level.String()
	}
	return out
}

func TestDoctorBeforeAndAfterInit(t *testing.T) {
	t.Parallel()
	cfg := parse(t, filepath.Join(t.TempDir(), "shop.db"), "listen: off")
	before := Doctor(t.Context(), cfg)
	d := doctor{found: before}
	if !d.broken("source app") {
		t.Errorf("without tables: %v", levels(before))
	}
	if _, err := operate.Init(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	after := Doctor(t.Context(), cfg)
	for _, f := range after {
		if f.Level == adapters.LevelBroken {
			t.Errorf("after init: %s: %s: %s", f.Part, f.Subject, f.Text)
		}
	}
	if got := levels(after); got["config: file"] != "ok" || got["route orders: lag"] == "" || got["process: memory"] == "" {
		t.Errorf("found %v", got)
	}
}

func TestDoctorShowsPauses(t *testing.T) {
	t.Parallel()
	cfg := parse(t, filepath.Join(t.TempDir(), "shop.db"), "listen: off")
	if _, err := operate.Init(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	op, err := operate.NewOperator(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = op.Close() }()
	for _, p := range []adapters.Pause{{Route: "orders", By: "alice", Reason: "maintenance"}, {Route: "orders", Address: "https://a:pw@b.c/", By: "bob"}} {
		if _, err := op.Pause(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	var texts, fixes []string
	for _, f := range Doctor(t.Context(), cfg) {
		if f.Part == "route orders" && f.Subject == "pause" {
			texts, fixes = append(texts, f.Text), append(fixes, f.Fix)
		}
	}
	all := strings.Join(append(texts, fixes...), "\n")
	if len(texts) != 2 || !strings.Contains(all, "paused by alice since") || !strings.Contains(all, ": maintenance") ||
		!strings.Contains(all, "outrider resume orders --address") || strings.Contains(all, "pw@") {
		t.Errorf("pauses:\n%s", all)
	}
}

func TestDoctorOfARouteThatNeverRan(t *testing.T) {
	t.Parallel()
	cfg := parse(t, filepath.Join(t.TempDir(), "shop.db"), "listen: off")
	if _, err := operate.Init(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	message, err := outbox.New("order.paid").Group("g").RawJSON([]byte(`{}`)).Build()
	if err != nil {
		t.Fatal(err)
	}
	if err := operate.Publish(t.Context(), cfg, "app", message); err != nil {
		t.Fatal(err)
	}
	text := ""
	for _, f := range Doctor(t.Context(), cfg) {
		if f.Part == "route orders" && f.Subject == "lag" {
			text = f.Text
		}
	}
	if text != "the route has never run" {
		t.Errorf("the lag of a route that never ran is %q", text)
	}
}

// What is broken of a source is reported there once, and not again for each of its routes.
func TestDoctorReportsACauseOnce(t *testing.T) {
	t.Parallel()
	cfg := parse(t, filepath.Join(t.TempDir(), "no", "such", "folder", "shop.db"), "listen: off")
	broken := 0
	for _, f := range Doctor(t.Context(), cfg) {
		if f.Level == adapters.LevelBroken {
			broken++
		}
	}
	if broken == 0 || broken > 2 {
		t.Errorf("%d things are broken, want the source and its state", broken)
	}
}

func TestDoctorSeesARelay(t *testing.T) {
	t.Parallel()
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cfg := parse(t, filepath.Join(t.TempDir(), "shop.db"), "listen: "+l.Addr().String())
	text := func() string {
		for _, f := range Doctor(t.Context(), cfg) {
			if f.Part == "process" && strings.HasPrefix(f.Subject, "admin address") {
				return f.Text
			}
		}
		return ""
	}
	if got := text(); !strings.Contains(got, "a relay it seems") {
		t.Errorf("something listens: %q", got)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if got := text(); !strings.Contains(got, "nothing listens there") {
		t.Errorf("nothing listens: %q", got)
	}
}
