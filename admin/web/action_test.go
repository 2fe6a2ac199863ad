package web

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"strings"
	"testing"

	"github.com/outriderhq/outrider/admin/action"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/admin/server"
)

// A page leads to every action.
func TestEveryActionHasAButton(t *testing.T) {
	t.Parallel()
	files, err := templates.ReadDir("templates")
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, f := range files {
		text, err := templates.ReadFile(path.Join("templates", f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	text, err := os.ReadFile("overview.go") // the links that mend a cause
	if err != nil {
		t.Fatal(err)
	}
	all.Write(text)
	for _, a := range action.All {
		found := false
		for _, form := range []string{`"action", "` + a.Name + `"`, "action=" + a.Name + "&", `value="` + a.Name + `"`, `"action" "` + a.Name + `"`, `Confirm "` + a.Name + `"`, `args $p "` + a.Name + `"`} {
			found = found || strings.Contains(all.String(), form)
		}
		if !found {
			t.Errorf("no page leads to %s", a.Name)
		}
	}
}

// The dashboard refuses who has not the role of an action.
func TestG12_ActionsNeedTheirRoles(t *testing.T) {
	t.Parallel()
	for _, a := range action.All {
		for _, role := range []operate.Role{operate.RoleNone, operate.RoleRead, operate.RoleOperate, operate.RoleAdmin} {
			r := httptest.NewRequest(http.MethodPost, "/do", http.NoBody)
			_, err := ordered(r.WithContext(operate.WithCaller(r.Context(), operate.Caller{Role: role})), a.Name)
			if may := role >= a.Role; may != (err == nil) || !may && server.StatusOf(err) != http.StatusForbidden {
				t.Errorf("%s with the role %s: %v", a.Name, role, err)
			}
		}
	}
	if _, err := ordered(httptest.NewRequest(http.MethodPost, "/do", http.NoBody), "drop"); server.StatusOf(err) != http.StatusUnprocessableEntity {
		t.Errorf("an action that there is not: %v", err)
	}
}
