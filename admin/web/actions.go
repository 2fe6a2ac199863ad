package web

import (
	"cmp"
	"net/http"
	"net/url"
	"strings"

	"github.com/outriderhq/outrider/admin/action"
	"github.com/outriderhq/outrider/admin/server"
)

// confirmData has the changes of an action, to be confirmed.
type confirmData struct {
	*action.Plan
	Action string
	Back   link
}

// Counted is the word for what the plan has counted.
func (d confirmData) Counted() string {
	unit := cmp.Or(d.Unit, "messages")
	if d.Count == 1 && d.Unit != "rows" {
		return strings.TrimSuffix(unit, "s")
	}
	return unit
}

// ordered returns the action that a request names, if its caller may order it.
func ordered(r *http.Request, name string) (*action.Action, error) {
	a := action.Named(name)
	if a == nil {
		return nil, server.Failed(http.StatusUnprocessableEntity, "there is no action %q", name)
	}
	return a, need(r, a.Role)
}

// confirm shows what an action will change, and what of it cannot be undone.
func (s *pages) confirm(r *http.Request) (*page, error) {
	q := r.URL.Query()
	a, err := ordered(r, q.Get("action"))
	if err != nil {
		return nil, err
	}
	if a.Plan == nil {
		return nil, server.Failed(http.StatusUnprocessableEntity, "%s needs no confirmation", a.Name)
	}
	plan, err := a.Plan(r.Context(), s.console, q)
	if err != nil {
		return nil, err
	}
	return &page{Name: "confirm", Title: a.Title, Data: confirmData{plan, a.Name, link(localPath(cmp.Or(plan.Back, q.Get("back"))))}}, nil
}

// do carries an action out and leads back.
func (s *pages) do(r *http.Request) (*page, error) {
	form := r.PostForm
	a, err := ordered(r, form.Get("action"))
	if err != nil {
		return nil, err
	}
	defer s.console.Changed()
	said, err := a.Do(r.Context(), s.console, form)
	if err != nil {
		return nil, err
	}
	back := localPath(form.Get("back"))
	if strings.HasPrefix(said, action.Started) {
		back = "/operations"
	}
	sign := "?"
	if strings.Contains(back, "?") {
		sign = "&"
	}
	return redirect(back + sign + "notice=" + s.notices.add(said, false)), nil
}

// localPath is a path of ours that a form names, without the notice that it may carry.
func localPath(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host != "" || u.Scheme != "" || !strings.HasPrefix(text, "/") || strings.HasPrefix(text, "//") || strings.Contains(text, "\\") {
		return "/"
	}
	q := u.Query()
	q.Del("notice")
	u.RawQuery = q.Encode()
	return u.String()
}
