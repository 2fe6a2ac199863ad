package server

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/outriderhq/outrider/admin/operate"
)

// Bounds of the logins of browsers.
const (
	loginCookie = "outrider_session" // with the port, so that relays on one host have each their own
	loginLife   = 12 * time.Hour     // from signing in, whatever is done meanwhile
	loginsMost  = 1000               // the one that ends first makes room
)

// logins are those of browsers that have given a token. They are in memory: a restart
// ends them. Of the value of a cookie only the hash is kept.
//
// A browser sends a cookie to all ports of its host, so another server there may get it. It is of use only below the login's own
// path, /s-SECRET/, which the browser tells none of them.
type logins struct {
	mu  sync.Mutex
	all map[[sha256.Size]byte]login
}

// login is a browser that has given a token.
type login struct {
	caller operate.Caller
	path   string // the secret in the path of its pages
	ends   time.Time
}

// begin makes a login and returns the value of its cookie and the secret of its path.
func (s *logins) begin(c operate.Caller, now time.Time) (text, path string) {
	value := make([]byte, 32)
	_, _ = rand.Read(value) // never fails
	text, path = base64.RawURLEncoding.EncodeToString(value), rand.Text()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[[sha256.Size]byte]login{}
	}
	if len(s.all) >= loginsMost {
		s.makeRoom(now)
	}
	c.Login = operate.LoginBrowser
	s.all[sha256.Sum256([]byte(text))] = login{c, path, now.Add(loginLife)}
	return text, path
}

// makeRoom removes what has ended, or else the login that ends first.
func (s *logins) makeRoom(now time.Time) {
	var first [sha256.Size]byte
	var ends time.Time
	for key, one := range s.all {
		if !now.Before(one.ends) {
			delete(s.all, key)
		} else if ends.IsZero() || one.ends.Before(ends) {
			first, ends = key, one.ends
		}
	}
	if len(s.all) >= loginsMost {
		delete(s.all, first)
	}
}

// find is the caller of a login, for a request below its path.
func (s *logins) find(value, path string) (operate.Caller, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one, ok := s.all[sha256.Sum256([]byte(value))]
	return one.caller, ok && time.Now().Before(one.ends) && subtle.ConstantTimeCompare([]byte(path), []byte(one.path)) == 1
}

// end forgets a login.
func (s *logins) end(value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, sha256.Sum256([]byte(value)))
}

// loginBase begins the path of a login's pages.
const loginBase = "/s-"

type pathKey struct{}

// withLogins takes the part of a login off the path of a request, so that handlers find their paths and [Base] has it.
func withLogins(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rest, ok := strings.CutPrefix(r.URL.Path, loginBase)
		secret, _, found := strings.Cut(rest, "/")
		if !ok || !found || secret == "" || url.PathEscape(secret) != secret {
			h.ServeHTTP(w, r)
			return
		}
		r = r.WithContext(context.WithValue(r.Context(), pathKey{}, secret))
		http.StripPrefix(loginBase+secret, h).ServeHTTP(w, r)
	})
}

// secretOf is the secret in the path of a request; empty: there is none.
func secretOf(r *http.Request) string {
	secret, _ := r.Context().Value(pathKey{}).(string)
	return secret
}

// Root is [Base] without the part of a login.
func Root(r *http.Request) string {
	if secret := secretOf(r); secret != "" {
		return strings.TrimSuffix(Base(r), loginBase+secret)
	}
	return Base(r)
}

// SignIn begins a login for a browser that has given a token, and sets its cookie. name is for the audit log. It returns the
// path of the login's pages; false: the token is none.
func SignIn(w http.ResponseWriter, r *http.Request, token, name string) (base string, ok bool) {
	a := requestOf(r.Context()).auth
	if a == nil {
		return "", false
	}
	who := a.bearer(token)
	if who.Role == operate.RoleNone {
		return "", false
	}
	who.Name = name
	if former, err := r.Cookie(cookieName(r)); err == nil {
		a.logins.end(former.Value)
	}
	value, path := a.logins.begin(who, time.Now())
	http.SetCookie(w, cookie(r, value, int(loginLife.Seconds())))
	return Root(r) + loginBase + path, true
}

// SignOut ends the caller's login.
func SignOut(w http.ResponseWriter, r *http.Request) {
	former, err := r.Cookie(cookieName(r))
	if a := requestOf(r.Context()).auth; a != nil && err == nil {
		a.logins.end(former.Value)
	}
	http.SetCookie(w, cookie(r, "", -1))
}

// secure reports whether the browser came by TLS; a client that claims it harms itself alone.
func secure(r *http.Request) bool {
	return r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https"
}

// cookieName is the name of the login's cookie for the address that a request is sent to. With TLS its prefix keeps other hosts of the
// domain, and servers without TLS, from setting it.
func cookieName(r *http.Request) string {
	name := loginCookie
	if _, port, err := net.SplitHostPort(r.Host); err == nil {
		name += "_" + port
	}
	switch {
	case !secure(r):
		return name
	case Root(r) == "":
		return "__Host-" + name
	}
	return "__Secure-" + name // of a mounted server: its path is not /
}

func cookie(r *http.Request, value string, age int) *http.Cookie {
	return &http.Cookie{ //nolint:gosec // Secure where the browser came by TLS: on loopback it did not
		Name: cookieName(r), Value: value, Path: Root(r) + "/", MaxAge: age, HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: secure(r),
	}
}
