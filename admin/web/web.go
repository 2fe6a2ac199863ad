package web

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/outriderhq/outrider/admin/console"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/admin/server"
)

//go:embed templates/*.html
var templates embed.FS

//go:embed static
var static embed.FS

// policy allows what the pages consist of, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// pages answers the requests of browsers.
type pages struct {
	console *console.Console
	notices notices
}

// New returns the handler of the dashboard. The server in front of it authenticates the caller
// ([operate.CallerOf]); it may be mounted at any path ([server.Base]).
func New(c *console.Console) http.Handler {
	s := &pages{console: c}
	mux := http.NewServeMux()
	for pattern, f := range map[string]func(*http.Request) (*page, error){
		"GET /{$}":                         s.overview,
		"GET /route/{route}":               s.route,
		"GET /parked":                      s.parked,
		"GET /parked/{route}/{slot}/{seq}": s.message,
		"GET /failures":                    s.failures,
		"GET /groups":                      s.groups,
		"GET /event":                       s.event,
		"GET /destinations":                s.destinations,
		"GET /instances":                   s.instances,
		"GET /tail":                        s.tail,
		"GET /operations":                  s.operations,
		"GET /audit":                       s.audit,
		"GET /config":                      s.config,
		"GET /doctor":                      s.doctor,
		"GET /retention":                   s.retention,
		"GET /confirm":                     s.confirm,
		"GET " + server.LoginPath:          s.login,
		"POST " + server.LoginPath:         s.signIn,
		"POST /logout":                     s.signOut,
		"POST /do":                         s.do,
		"GET /":                            s.unknown,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { s.answer(w, r, f) })
	}
	mux.HandleFunc("GET /data/{route}", s.data)
	mux.HandleFunc("GET "+server.StaticPath, s.static)
	return mux
}

// files are the parts of the pages that are the same for all servers.
type files struct {
	pages   map[string]*template.Template // by name
	version string                        // of the static files, for caches
}

// parsed returns the templates, each page with the layout. They are parsed when the first page is asked for: that takes a third of
// the processor time of starting a relay. They are part of the program, so an error is a mistake in it.
var parsed = sync.OnceValue(func() files {
	f := files{pages: map[string]*template.Template{}}
	layout := template.Must(template.New("layout.html").Funcs(functions).ParseFS(templates, "templates/layout.html", "templates/parts.html"))
	names, _ := fs.Glob(templates, "templates/*.html") // fails for malformed patterns only
	for _, name := range names {
		f.pages[strings.TrimSuffix(path.Base(name), ".html")] = template.Must(template.Must(layout.Clone()).ParseFS(templates, name))
	}
	sum := sha256.New()
	names, _ = fs.Glob(static, "static/*")
	for _, name := range names {
		text, _ := static.ReadFile(name) // it is in the list
		_, _ = sum.Write(text)           // never fails
	}
	f.version = hex.EncodeToString(sum.Sum(nil)[:6])
	return f
})

// page is the data of a template.
type page struct {
	Name  string // of the template
	Title string
	Data  any

	Base    string // what links begin with
	Root    string // the same without the part of a session
	Version string
	Path    string // that was asked for, with its query
	Now     time.Time
	Who     operate.Caller
	Open    bool   // there is no authentication
	Form    string // what forms carry
	Notice  *notice
	Summary summary

	status int // 0: 200
	to     string
	base   string                                   // what to is below, with with; otherwise Base
	with   func(http.ResponseWriter, *http.Request) // before the answer; optional
}

// CanOperate reports whether the caller may pause, resume, redrive and skip.
func (p *page) CanOperate() bool { return p.Who.Role >= operate.RoleOperate }

// CanAdmin reports whether the caller may also do what cannot be undone, such as purge and seek.
func (p *page) CanAdmin() bool { return p.Who.Role >= operate.RoleAdmin }

// Lacks is the next role above the caller's, which may act; [operate.RoleNone]: there is none.
func (p *page) Lacks() operate.Role {
	if p.CanAdmin() {
		return operate.RoleNone
	}
	return p.Who.Role + 1
}

// Current reports whether the page belongs to an entry of the navigation.
func (p *page) Current(names ...string) bool {
	return slices.Contains(names, p.Name)
}

// redirect leads the browser to a path of ours.
func redirect(to string) *page { return &page{to: to} }

// answer calls a page's function and renders what it returns, or its error.
func (s *pages) answer(w http.ResponseWriter, r *http.Request, f func(*http.Request) (*page, error)) {
	header := w.Header()
	header.Set("Content-Security-Policy", policy)
	header.Set("Referrer-Policy", "same-origin")
	if err := checked(r); err != nil {
		s.fail(w, r, err)
		return
	}
	p, err := f(r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	if p.with != nil {
		p.with(w, r)
	}
	if p.to != "" {
		if p.with == nil {
			p.base = server.Base(r)
		}
		header.Set("Location", p.base+p.to)
		w.WriteHeader(http.StatusSeeOther)
		return
	}
	s.render(w, r, p)
}

// checked refuses what no database keeps, and forms that another page made.
func checked(r *http.Request) error {
	if r.Method == http.MethodPost {
		if err := r.ParseForm(); err != nil {
			return server.Failed(http.StatusBadRequest, "the form cannot be read: %v", err)
		}
		if !server.ValidForm(r.Context(), r.PostFormValue("form")) {
			return server.Failed(http.StatusForbidden, "this form is not valid any more: open the page again")
		}
	} else {
		r.Form = r.URL.Query()
	}
	for name, values := range r.Form {
		for _, v := range values {
			if !utf8.ValidString(v) || len(v) > 4000 || strings.ContainsFunc(v, func(c rune) bool { return c != '\n' && c != '\r' && c != '\t' && unicode.IsControl(c) }) {
				return server.Failed(http.StatusUnprocessableEntity, "%s has control characters, is too long, or is not UTF-8", name)
			}
		}
	}
	return nil
}

// render writes a page.
func (s *pages) render(w http.ResponseWriter, r *http.Request, p *page) {
	ctx := r.Context()
	p.Root, p.Base, p.Version, p.Path, p.Now = server.Root(r), server.Base(r), parsed().version, r.URL.RequestURI(), time.Now()
	p.Who, p.Open, p.Form = operate.CallerOf(ctx), server.Open(ctx), server.FormToken(ctx)
	p.Notice = s.notices.find(r.URL.Query().Get("notice"))
	if p.Who.Role != operate.RoleNone {
		p.Summary = summaryOf(s.console.Status(ctx))
	}
	var out bytes.Buffer
	if err := parsed().pages[p.Name].ExecuteTemplate(&out, "layout.html", p); err != nil {
		http.Error(w, "the page cannot be made: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	// What is written of times relative to now is nothing new to the script, which writes them itself.
	if p.status == 0 && r.Method == http.MethodGet && server.Unchanged(w, r, relative.ReplaceAll(out.Bytes(), nil)) {
		return
	}
	w.WriteHeader(cmp.Or(p.status, http.StatusOK))
	_, _ = w.Write(out.Bytes()) // the browser may have gone
}

// relative is a time relative to now, as the template "time" writes it.
var relative = regexp.MustCompile(`<span class="rel">[^<]*</span>`)

// fail shows an error as a page.
func (s *pages) fail(w http.ResponseWriter, r *http.Request, err error) {
	status := server.StatusOf(err)
	s.render(w, r, &page{Name: "problem", Title: http.StatusText(status), Data: err.Error(), status: status})
}

// unknown answers paths that there are not.
func (s *pages) unknown(*http.Request) (*page, error) {
	return nil, server.Failed(http.StatusNotFound, "there is no such page")
}

// need refuses callers without a role.
func need(r *http.Request, role operate.Role) error {
	if who := operate.CallerOf(r.Context()); who.Role < role {
		return server.Failed(http.StatusForbidden, "this needs the role %s, and you have %s: %s", role, who.Role, who.HowToGet(role))
	}
	return nil
}

// static serves our own files, which caches keep by their version.
func (s *pages) static(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("v") == parsed().version {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	http.ServeFileFS(w, r, static, path.Clean(r.URL.Path)) //nolint:gosec // of the embedded files
}
