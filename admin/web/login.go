package web

import (
	"net/http"
	"strings"

	"github.com/outriderhq/outrider/admin/server"
)

// loginData is the data of the form for a token.
type loginData struct {
	Next  string
	Wrong bool
}

func (s *pages) login(r *http.Request) (*page, error) {
	if server.Open(r.Context()) {
		return redirect("/"), nil
	}
	return &page{Name: "login", Title: "Sign in", Data: loginData{Next: localPath(r.URL.Query().Get("next"))}}, nil
}

func (s *pages) signIn(r *http.Request) (*page, error) {
	next := localPath(r.PostFormValue("next"))
	p := redirect(next)
	p.with = func(w http.ResponseWriter, r *http.Request) {
		var ok bool
		if p.base, ok = server.SignIn(w, r, strings.TrimSpace(r.PostFormValue("token")), strings.TrimSpace(r.PostFormValue("name"))); !ok {
			*p = page{Name: "login", Title: "Sign in", Data: loginData{Next: next, Wrong: true}, status: http.StatusForbidden}
		}
	}
	return p, nil
}

func (s *pages) signOut(*http.Request) (*page, error) {
	p := redirect(server.LoginPath + "?ended=yes")
	p.with = func(w http.ResponseWriter, r *http.Request) {
		server.SignOut(w, r)
		p.base = server.Root(r)
	}
	return p, nil
}
