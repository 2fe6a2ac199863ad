package admin

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"sync"
	"time"
)

// Bounds of the sessions of browsers.
const (
	sessionCookie = "outrider_session"
	sessionLife   = 12 * time.Hour // from signing in, whatever is done meanwhile
	sessionsMost  = 1000           // the one that ends first makes room
)

// sessions are those of browsers that have given a token. They are in memory: a restart
// ends them. Of the value of a cookie only the hash is kept.
type sessions struct {
	mu  sync.Mutex
	all map[[sha256.Size]byte]session
}

// session is a browser that has given a token.
type session struct {
	caller Caller
	ends   time.Time
}

// begin makes a session and returns the value of its cookie.
func (s *sessions) begin(c Caller, now time.Time) string {
	value := make([]byte, 32)
	_, _ = rand.Read(value) // never fails
	text := base64.RawURLEncoding.EncodeToString(value)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[[sha256.Size]byte]session{}
	}
	if len(s.all) >= sessionsMost {
		s.makeRoom(now)
	}
	c.Session = SessionBrowser
	s.all[sha256.Sum256([]byte(text))] = session{c, now.Add(sessionLife)}
	return text
}

// makeRoom removes what has ended, or else the session that ends first.
func (s *sessions) makeRoom(now time.Time) {
	var first [sha256.Size]byte
	var ends time.Time
	for key, one := range s.all {
		if !now.Before(one.ends) {
			delete(s.all, key)
		} else if ends.IsZero() || one.ends.Before(ends) {
			first, ends = key, one.ends
		}
	}
	if len(s.all) >= sessionsMost {
		delete(s.all, first)
	}
}

// find is the caller of a session.
func (s *sessions) find(value string) (Caller, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one, ok := s.all[sha256.Sum256([]byte(value))]
	return one.caller, ok && time.Now().Before(one.ends)
}

// end forgets a session.
func (s *sessions) end(value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, sha256.Sum256([]byte(value)))
}

// SignIn begins a session for a browser that has given a token, and sets its cookie below
// the path base. name is for the audit log. It returns false when the token is none.
func SignIn(w http.ResponseWriter, r *http.Request, base, token, name string) bool {
	a := requestOf(r.Context()).auth
	if a == nil {
		return false
	}
	who := a.bearer(token)
	if who.Role == RoleNone {
		return false
	}
	who.Name = name
	if former, err := r.Cookie(sessionCookie); err == nil {
		a.sessions.end(former.Value)
	}
	http.SetCookie(w, cookie(r, base, a.sessions.begin(who, time.Now()), int(sessionLife.Seconds())))
	return true
}

// SignOut ends the caller's session.
func SignOut(w http.ResponseWriter, r *http.Request, base string) {
	former, err := r.Cookie(sessionCookie)
	if a := requestOf(r.Context()).auth; a != nil && err == nil {
		a.sessions.end(former.Value)
	}
	http.SetCookie(w, cookie(r, base, "", -1))
}

func cookie(r *http.Request, base, value string, age int) *http.Cookie {
	return &http.Cookie{ //nolint:gosec // Secure where the browser came by TLS: on loopback it did not
		Name: sessionCookie, Value: value, Path: base + "/", MaxAge: age, HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https", // a client that claims it harms itself alone
	}
}

// How a caller of pages is known.
const (
	SessionBrowser = "browser" // signed in with a token
	SessionProxy   = "proxy"   // named by a trusted proxy
)

// pageAuthor is what the audit log says of a change from a page.
func (c Caller) pageAuthor() string {
	name := "dashboard"
	if c.Name != "" {
		name = c.Name + " by dashboard"
	}
	if c.Token != "" {
		name += ", token " + c.Token
	}
	return name
}

// PageAuthor is what the audit log says of a change that the caller makes on a page.
func PageAuthor(ctx context.Context) string { return CallerOf(ctx).pageAuthor() }
