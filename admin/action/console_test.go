package action

import (
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/console"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/admin/server"
	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/internal/assembly"
)

// newConsole is that of a relay on a SQLite file with the routes orders and mail, whose tables exist.
func newConsole(t *testing.T) *console.Console {
	t.Helper()
	cfg, err := config.Parse("test", fmt.Appendf(nil, "admin: {listen: off}\nsources: {app: {type: sqlite, path: %q}}\ndestinations: {log: {type: log}}\n"+
		"routes: {orders: {from: app, to: log}, mail: {from: app, to: log}}\n", filepath.Join(t.TempDir(), "shop.db")), func(string) (string, bool) { return "", false })
	if err == nil {
		_, err = operate.Init(t.Context(), cfg)
	}
	if err != nil {
		t.Fatal(err)
	}
	c := console.NewConsole(console.Relay{Config: func() *config.Config { return cfg }, Options: assembly.OptionsOf(nil),
		Stats: func() []adapters.RouteStats { return nil }})
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// Actions say what they did, and say it when they changed nothing.
func TestActionsSayWhatTheyDid(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	ctx := operate.WithCaller(t.Context(), operate.Caller{Role: operate.RoleAdmin})
	for _, tt := range []struct{ name, form, said string }{
		{"pause", "route=orders&reason=maintenance", "Paused route orders. Instances finish what is in flight."},
		{"pause", "route=orders", "Nothing changed: route orders is paused already."},
		{"pause", "route=orders&group=g1&part=yes", "Paused group g1 of route orders. Instances finish what is in flight."},
		{"resume", "route=orders&group=g1", "Resumed group g1 of route orders."},
		{"resume", "route=orders", "Resumed route orders."},
		{"resume", "route=orders&address=bus", "Nothing changed: address bus of route orders is not paused."},
		{"redrive", "route=orders&count=1", "Redrove 0 messages. 1 of the 1 confirmed ones remain, or were delivered meanwhile."},
		{"purge", "status=dead&count=2000&rate=5", "Nothing to purge any more."},
		{"probe", "route=orders&address=bus", "Nothing to try: bus is in use again, or is being tried."},
		{"remove-instance", "instance=a", "Nothing changed: instance a has left."},
		{"retain", "", "Removed 0 rows."},
		{"seek", "route=orders&to=end", "Route orders continues at the end."},
		{"seek-routes", "routes=*&to=beginning&count=2", "Started the operation seek of 2 routes."},
		{"forget", "route=mail&count=0", "Forgot route mail: 16 cursors, 0 parked messages, 0 pauses."},
	} {
		form, err := url.ParseQuery(tt.form)
		if err != nil {
			t.Fatal(err)
		}
		if tt.name == "forget" { // what it forgets must be there
			if _, err := seek(ctx, c, url.Values{"route": {"mail"}, "to": {"end"}}); err != nil {
				t.Fatal(err)
			}
		}
		if said, err := Named(tt.name).Do(ctx, c, form); err != nil || said != tt.said {
			t.Errorf("%s of %s: %q, %v; want %q", tt.name, tt.form, said, err, tt.said)
		}
	}
}

// Plans change nothing, and the form that they make carries what Do needs.
func TestPlans(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	for _, tt := range []struct {
		name, query, verb, nothing string
		fields                     []string
		grave                      bool
	}{
		{name: "pause", query: "route=orders", verb: "Pause", fields: []string{"route", "address", "reason"}},
		{name: "redrive", query: "route=orders", verb: "Redrive 0 messages", nothing: "Nothing to redrive", fields: []string{"route", "count"}},
		{name: "skip", query: "", verb: "Skip 0 messages", nothing: "Nothing to skip", fields: []string{"count"}, grave: true},
		{name: "purge", query: "group=g&status=dead", verb: "Purge 0 messages", nothing: "Nothing to purge", fields: []string{"status", "group", "count"}, grave: true},
		{name: "seek", query: "route=orders&to=end", verb: "Seek to the end", fields: []string{"route", "to"}, grave: true},
		{name: "seek-routes", query: "routes=or*,mail&to=end", verb: "Seek 2 routes", fields: []string{"routes", "to", "count"}, grave: true},
		{name: "forget", query: "route=orders", verb: "Forget orders", fields: []string{"route", "count"}, grave: true},
		{name: "remove-instance", query: "instance=a", nothing: "There is no such instance"},
		{name: "end-transaction", query: "transaction=7", nothing: "The transaction has ended already."},
		{name: "retain", query: "", verb: "Remove 0 rows", nothing: "Nothing to remove", grave: true},
		{name: "reload", query: "", verb: "Reload"},
	} {
		q, err := url.ParseQuery(tt.query)
		if err != nil {
			t.Fatal(err)
		}
		p, err := Named(tt.name).Plan(t.Context(), c, q)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		var fields []string
		for _, f := range p.Fields {
			fields = append(fields, f[0])
		}
		if p.Verb != tt.verb || !strings.HasPrefix(p.Nothing, tt.nothing) || (p.Nothing == "") != (tt.nothing == "") || p.Grave != tt.grave || !slices.Equal(fields, tt.fields) {
			t.Errorf("%s of %s: %+v", tt.name, tt.query, p)
		}
	}
}

// What cannot be meant, or is not allowed now, is refused with the status that says so.
func TestRefusals(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	for _, tt := range []struct {
		name, form string
		want       int
	}{
		{"pause", "route=none", http.StatusNotFound},
		{"pause", "route=orders&part=yes", http.StatusUnprocessableEntity},
		{"redrive", "route=orders", http.StatusUnprocessableEntity},
		{"redrive", "count=5000&rate=fast", http.StatusUnprocessableEntity},
		{"skip", "status=lost&count=1", http.StatusUnprocessableEntity},
		{"seek", "route=orders&to=yonder", http.StatusUnprocessableEntity},
		{"seek", "route=orders&to=2999-01-01", http.StatusConflict},
		{"seek", "route=none&to=end", http.StatusNotFound},
		{"rebase", "route=orders", http.StatusConflict},
		{"seek-routes", "to=end", http.StatusUnprocessableEntity},
		{"seek-routes", "routes=[&to=end", http.StatusUnprocessableEntity},
		{"seek-routes", "routes=*&to=end&count=1", http.StatusConflict},
		{"forget", "route=orders&count=3", http.StatusConflict},
		{"stop-operation", "id=none", http.StatusNotFound},
		{"create-topic", "destination=log&topic=t&partitions=0", http.StatusUnprocessableEntity},
		{"create-topic", "destination=none&topic=t", http.StatusNotFound},
		{"create-topic", "destination=log&topic=t", http.StatusConflict},
		{"reload", "", http.StatusNotImplemented},
	} {
		form, err := url.ParseQuery(tt.form)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Named(tt.name).Do(t.Context(), c, form); err == nil || server.StatusOf(err) != tt.want {
			t.Errorf("%s of %s: %v, want the status %d", tt.name, tt.form, err, tt.want)
		}
	}
}

// Who may order a redrive may not stop or resume a purge or a seek.
func TestG12_AnOperationNeedsItsRole(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	admin := operate.WithCaller(t.Context(), operate.Caller{Role: operate.RoleAdmin})
	if _, err := seekRoutes(admin, c, url.Values{"routes": {"*"}, "to": {"end"}, "count": {"2"}}); err != nil {
		t.Fatal(err)
	}
	id := ""
	err := c.Use(t.Context(), func(op *operate.Operator) error {
		all, err := op.Operations(t.Context(), adapters.OperationFilter{})
		if len(all) == 1 {
			id = all[0].ID
		}
		return err
	})
	if err != nil || id == "" {
		t.Fatalf("the operation was not found: %v", err)
	}
	form := url.Values{"id": {id}}
	if _, err := stopOperation(operate.WithCaller(t.Context(), operate.Caller{Role: operate.RoleOperate}), c, form); server.StatusOf(err) != http.StatusForbidden {
		t.Errorf("an operator: %v", err)
	}
	for _, want := range []string{"Stopped.", "Nothing changed:"} {
		if said, err := stopOperation(admin, c, form); err != nil || !strings.HasPrefix(said, want) {
			t.Errorf("an admin: %q, %v; want %q", said, err, want)
		}
	}
	if said, err := resumeOperation(admin, c, form); err != nil || !strings.HasPrefix(said, "Resumed.") {
		t.Errorf("resumed: %q, %v", said, err)
	}
}
