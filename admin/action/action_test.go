package action

import (
	"context"
	"net/http"
	"net/url"
	"reflect"
	"testing"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/admin/server"
)

func TestEveryActionIsComplete(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, a := range All {
		switch {
		case seen[a.Name]:
			t.Errorf("two actions have the name %s", a.Name)
		case a.Role < operate.RoleOperate:
			t.Errorf("%s: everyone who may look may order it", a.Name)
		case a.Do == nil:
			t.Errorf("%s does nothing", a.Name)
		case (a.Plan == nil) != (a.Title == ""):
			t.Errorf("%s: a plan and the title of its page go together", a.Name)
		case (a.Summary == "") != (a.Order != ""):
			t.Errorf("%s: the API takes the summary of an operation from its action", a.Name)
		case Named(a.Name) != a:
			t.Errorf("%s is not found by its name", a.Name)
		}
		seen[a.Name] = true
	}
	if Named("delete-everything") != nil {
		t.Error("an action that there is not was found")
	}
}

// What cannot be undone, and what shows or ends other programs' work, is for admins.
func TestG12_RolesOfActions(t *testing.T) {
	t.Parallel()
	operators := map[string]bool{"pause": true, "resume": true, "redrive": true, "skip": true, "probe": true, "stop-operation": true, "resume-operation": true}
	for _, a := range All {
		want := operate.RoleAdmin
		if operators[a.Name] {
			want = operate.RoleOperate
		}
		if a.Role != want {
			t.Errorf("%s needs the role %s, want %s", a.Name, a.Role, want)
		}
	}
	for kind, want := range map[adapters.OperationKind]operate.Role{adapters.OperationRedrive: operate.RoleOperate, adapters.OperationSkip: operate.RoleOperate,
		adapters.OperationPurge: operate.RoleAdmin, adapters.OperationSeek: operate.RoleAdmin} {
		if got := RoleFor(kind); got != want {
			t.Errorf("the operation %s needs the role %s, want %s", kind, got, want)
		}
	}
}

func TestFilter(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]adapters.ParkedFilter{
		"":                              {},
		"route=orders&group=g1&other=x": {Route: "orders", Group: "g1"},
		"status=held&type=+order.paid+": {Status: adapters.ParkedHeld, Type: "order.paid"},
		"id=7&error=timeout":            {ID: "7", Error: "timeout"},
		"failure=00000000000000ff":      {Failure: 255},
	} {
		v, _ := url.ParseQuery(query)
		if got, _, err := Filter(v); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, %v", query, got, err)
		}
	}
	_, set, err := Filter(url.Values{"error": {"x"}, "route": {"r"}, "status": {" "}})
	if want := [][2]string{{"route", "r"}, {"error", "x"}}; err != nil || !reflect.DeepEqual(set, want) {
		t.Errorf("set are %v, %v; want %v", set, err, want)
	}
	for _, text := range []string{"2026-01-31T08:00:00Z", "2026-01-31T08:00", "2026-01-31"} {
		if f, _, err := Filter(url.Values{"before": {text}}); err != nil || f.Before.Year() != 2026 {
			t.Errorf("before %s: %v, %v", text, f.Before, err)
		}
	}
	for _, query := range []string{"status=lost", "failure=12", "failure=zzzzzzzzzzzzzzzz", "before=tomorrow", "before=0001-01-01"} {
		v, _ := url.ParseQuery(query)
		if _, _, err := Filter(v); server.StatusOf(err) != http.StatusUnprocessableEntity {
			t.Errorf("%s: %v", query, err)
		}
	}
}

func TestWhatIsPaused(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]string{
		"route=orders":                           "route orders",
		"route=orders&group=+g1":                 "group g1 of route orders",
		"route=orders&address=https://a:pw@b.c/": "address https://%2A%2A%2A@b.c/ of route orders",
		"route=orders&part=yes&group=g1":         "group g1 of route orders",
		"route=orders&part=yes":                  "",
		"route=orders&group=g&address=a":         "",
	} {
		v, _ := url.ParseQuery(query)
		p, name, err := target(context.Background(), v)
		if (err != nil) != (want == "") || err == nil && name != want {
			t.Errorf("%s: %q, %v; want %q", query, name, err, want)
		}
		if p.By != "dashboard" {
			t.Errorf("%s: paused by %q", query, p.By)
		}
	}
}

func TestTopicOf(t *testing.T) {
	t.Parallel()
	got, err := topicOf(url.Values{"topic": {"t"}, "partitions": {"12"}})
	if want := (adapters.NewTopic{Name: "t", Partitions: 12}); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	for name, value := range map[string]string{"partitions": "10001", "replicas": "0"} {
		if _, err := topicOf(url.Values{"topic": {"t"}, name: {value}}); server.StatusOf(err) != http.StatusUnprocessableEntity {
			t.Errorf("%s of %s: %v", value, name, err)
		}
	}
}

func TestWords(t *testing.T) {
	t.Parallel()
	for got, want := range map[string]string{
		Thousands(0): "0", Thousands(999): "999", Thousands(1000): "1,000", Thousands(-1234567): "-1,234,567",
		Plural(1, "row", "rows"): "1 row", Plural(1500, "row", "rows"): "1,500 rows", AtLeast(10_000, true): "over 10,000", AtLeast(3, false): "3",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	_, sum, text := removed([]adapters.RetentionStats{{Rows: 2}, {Rows: 1, Partitions: 1}})
	if sum != 4 || text != "1 partition and 3 rows" {
		t.Errorf("%d: %q", sum, text)
	}
}
