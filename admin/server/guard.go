package server

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/outriderhq/outrider/admin/operate"
)

// limits bound what a client can hold of the process. Every handler inherits
// them; one that streams extends its own deadline with [http.ResponseController].
type limits struct {
	header, read, write, idle time.Duration
	connections               int   // requests at a time; more wait for their turn
	probes                    int   // connections beyond these
	headerBytes               int   // of a request
	bodyBytes                 int64 // of a request
}

var defaultLimits = limits{
	header: 5 * time.Second, read: 10 * time.Second, write: 30 * time.Second, idle: time.Minute,
	connections: 512, probes: 32, headerBytes: 64 << 10, bodyBytes: 1 << 20,
}

// open are the paths that need no token: what orchestrators ask.
var open = []string{"/livez", "/readyz"}

// guard checks every request before a handler sees it: the name that it
// is addressed to, where a browser sent it from, its size, and its token. A
// handler that is added to the server needs to do nothing for that.
func guard(cfg Config, lim limits, h http.Handler) http.Handler {
	return withHeaders(addressed(cfg, guarded(cfg, lim, h)))
}

// guardMounted is guard without the name, which a server that mounts us knows.
func guardMounted(cfg Config, lim limits, h http.Handler) http.Handler {
	return withHeaders(guarded(cfg, lim, h))
}

func guarded(cfg Config, lim limits, h http.Handler) http.Handler {
	h = http.MaxBytesHandler(h, lim.bodyBytes)
	h = withLogins(authorised(cfg, h))
	// A page of another site may send requests here, which a firewall does not
	// see; it cannot read answers, and now cannot change anything either.
	sites := http.NewCrossOriginProtection()
	sites.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		refuse(w, r, http.StatusForbidden, "a page of another site sent this request")
	}))
	return sites.Handler(h)
}

// withHeaders sets what every answer has.
func withHeaders(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("X-Frame-Options", "DENY")
		header.Set("Cache-Control", "no-store")
		h.ServeHTTP(w, r)
	})
}

// authorised refuses who may do nothing, except on open paths, and notes for handlers
// who the caller is. A browser that asks for a page is led to the form for its token.
func authorised(cfg Config, h http.Handler) http.Handler {
	a := newAuth(cfg)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		found, refusal := a.examine(r)
		if found.caller.Role == operate.RoleNone && !isOpen(cfg, r.URL.Path) {
			if cfg.Pages != nil && strings.Contains(r.Header.Get("Accept"), "text/html") && !strings.HasPrefix(r.URL.Path, apis) {
				toLogin(w, r)
				return
			}
			w.Header().Set("WWW-Authenticate", "Bearer")
			refuse(w, r, http.StatusUnauthorized, refusal)
			return
		}
		ctx := context.WithValue(operate.WithCaller(r.Context(), found.caller), requestKey{}, found)
		h.ServeHTTP(w, r.WithContext(ctx))
	})
}

// isOpen reports whether a path needs no token.
func isOpen(cfg Config, path string) bool {
	return slices.Contains(open, path) || cfg.Pages != nil && (path == LoginPath || strings.HasPrefix(path, StaticPath))
}

// Paths of pages that need no token.
const (
	LoginPath  = "/login"
	StaticPath = "/static/" // what is the same for everybody
)

// toLogin leads a browser to the form for its token, and back afterwards. ended says that the login of its path has ended.
func toLogin(w http.ResponseWriter, r *http.Request) {
	to, q := Root(r)+LoginPath, url.Values{}
	if r.Method == http.MethodGet && r.URL.Path != "/" {
		q.Set("next", r.URL.RequestURI())
	}
	if secretOf(r) != "" {
		q.Set("ended", "yes")
	}
	if len(q) > 0 {
		to += "?" + q.Encode()
	}
	http.Redirect(w, r, to, http.StatusSeeOther) //nolint:gosec // a path below Root, which begins with one slash
}

// Base is the path that the server is mounted at in one of the program's own, such as
// /outrider, with that of the browser's login; empty: at the root.
func Base(r *http.Request) string {
	asked, err := url.ParseRequestURI(r.RequestURI)
	if err != nil {
		return ""
	}
	base, ok := strings.CutSuffix(asked.EscapedPath(), r.URL.EscapedPath())
	if !ok || strings.HasPrefix(base, "//") {
		return ""
	}
	return base
}

// addressed refuses requests to names that are not the server's. A site whose
// name leads to this address has a browser here ask as if it were the site (DNS
// rebinding); its requests carry that name. Addresses cannot be used like that.
func addressed(cfg Config, h http.Handler) http.Handler {
	names := []string{"localhost", ""} // no name: HTTP/1.0, and ":8080" as a client's address
	if host, _, err := net.SplitHostPort(cfg.Listen); err == nil {
		names = append(names, strings.ToLower(host))
	}
	for _, name := range cfg.Hosts {
		names = append(names, strings.ToLower(name))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
		if _, err := netip.ParseAddr(host); err != nil && !slices.Contains(names, host) {
			refuse(w, r, http.StatusMisdirectedRequest, "requests to this name are refused; add it to admin: {hosts: [...]} if it is this server's")
			return
		}
		h.ServeHTTP(w, r)
	})
}

// refuse answers and ends the connection, which then is free for others.
func refuse(w http.ResponseWriter, r *http.Request, status int, reason string) {
	w.Header().Set("Connection", "close")
	if !strings.HasPrefix(r.URL.Path, apis) {
		text(w, status, reason)
		return
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"status": status, "title": http.StatusText(status), "detail": reason}) // the client may have gone
}

func loopback(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// Where the APIs answer: all of them, ours, and that of Crablet's outbox.
const (
	apis       = "/api/"
	apiPath    = "/api/v1/"
	outboxPath = "/api/outbox/"
)
