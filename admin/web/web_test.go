package web_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/adapters/sqlite"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/outbox"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tokens by role; each has 32 bytes or more.
var tokens = map[string]string{"read": strings.Repeat("r", 32), "operate": strings.Repeat("o", 32), "admin": strings.Repeat("a", 40)}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// site is a relay that runs, with its pages mounted at /ops.
type site struct {
	t      *testing.T
	cfg    *outrider.Config
	server *httptest.Server
	relay  *outrider.Outrider
	db     string
	wrong  atomic.Bool // the receiver refuses events whose payload says bad
	took   atomic.Int64
}

// newSite starts a relay. extra is what the section admin says beside the tokens.
func newSite(t *testing.T, extra string) *site {
	t.Helper()
	s := &site{t: t, db: filepath.Join(t.TempDir(), "app.db")}
	s.wrong.Store(true)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if s.wrong.Load() && bytes.Contains(body, []byte("bad")) {
			http.Error(w, "unknown <customer>", http.StatusUnprocessableEntity)
			return
		}
		s.took.Add(1)
	}))
	t.Cleanup(receiver.Close)
	dir := t.TempDir()
	for role, token := range tokens {
		must(t, os.WriteFile(filepath.Join(dir, role), []byte(token+"\n"), 0o600))
	}
	text := fmt.Appendf(nil, `
lease: 1s
admin: {listen: "off", tokens_file: %[1]q, operate_tokens_file: %[2]q, admin_tokens_file: %[3]q %[6]s}
sources: {app: {type: sqlite, path: %[4]q}}
destinations: {hook: {type: webhook, url: %[5]q, secrets: ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"], allow_private: true}}
routes: {eu_orders: {from: app, to: hook, middleware: [{poison: {then: hold}}, {retry: {attempts: 1}}]}}
`, filepath.Join(dir, "read"), filepath.Join(dir, "operate"), filepath.Join(dir, "admin"), s.db, receiver.URL+"/orders", extra)
	read := func() (*outrider.Config, error) { return outrider.ParseConfig("test", text) }
	cfg, err := read()
	must(t, err)
	s.cfg = cfg
	_, err = operate.Init(t.Context(), cfg)
	must(t, err)
	relay, err := outrider.New(cfg, outrider.WithLogger(slog.New(slog.DiscardHandler)), outrider.WithReload(read))
	must(t, err)
	s.relay = relay
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- relay.Run(ctx) }()
	s.server = httptest.NewServer(http.StripPrefix("/ops", relay.Handler()))
	t.Cleanup(func() {
		s.server.Close()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	select {
	case <-relay.Ready():
	case err := <-done:
		t.Fatal(err)
	}
	return s
}

func (s *site) publish(id, payload string) {
	s.t.Helper()
	e, err := outbox.New("order.created").RawJSON([]byte(payload)).ID(id).Group("g-1").Build()
	must(s.t, err)
	must(s.t, operate.Publish(s.t.Context(), s.cfg, "app", e))
}

func (s *site) count(query string) (n int) {
	s.t.Helper()
	db, err := sqlite.Open(s.db)
	must(s.t, err)
	defer func() { _ = db.Close() }()
	must(s.t, db.QueryRowContext(s.t.Context(), query).Scan(&n))
	return n
}

// until waits for a condition.
func (s *site) until(what string, ok func() bool) {
	s.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for limit := time.After(2 * time.Minute); !ok(); {
		select {
		case <-tick.C:
		case <-limit:
			s.t.Fatalf("not within two minutes: %s", what)
		}
	}
}

// browser is a client without JavaScript.
type browser struct {
	t    *testing.T
	site *site
	http *http.Client
	head http.Header
	at   string // path of the latest page, without that of the session
	sess string // path of the session; empty: there is none
	page string
	tag  string // its ETag
}

func (s *site) browser(t *testing.T) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	must(t, err)
	return &browser{t: t, site: s, head: http.Header{}, http: &http.Client{Jar: jar, Transport: &http.Transport{DisableKeepAlives: true}}}
}

// signIn gives the token of a role in the form.
func (s *site) signIn(t *testing.T, role string) *browser {
	t.Helper()
	b := s.browser(t)
	b.open("/")
	if b.at != "/ops/login" {
		t.Fatalf("without a token the browser is at %s", b.at)
	}
	if status := b.submit("Sign in", map[string]string{"token": tokens[role], "name": "alice"}); status != http.StatusOK || b.at != "/ops/" {
		t.Fatalf("signing in: %d at %s", status, b.at)
	}
	return b
}

func (b *browser) send(method, target string, form url.Values) int {
	b.t.Helper()
	if bare := b.site.server.URL + "/ops/"; strings.HasPrefix(target, bare) && !strings.HasPrefix(target, bare+"s-") {
		target = b.site.server.URL + "/ops" + b.sess + target[len(bare)-1:] // as the script of the form for a token does
	}
	req, err := http.NewRequestWithContext(b.t.Context(), method, target, strings.NewReader(form.Encode()))
	must(b.t, err)
	req.Header = b.head.Clone()
	req.Header.Set("Accept", "text/html,*/*;q=0.8")
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	resp, err := b.http.Do(req)
	must(b.t, err)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	must(b.t, err)
	b.at, b.page, b.tag = resp.Request.URL.RequestURI(), string(text), resp.Header.Get("ETag")
	if sess := sessions.FindString(b.at); sess != "" {
		b.sess, b.at = sess, strings.Replace(b.at, sess, "", 1)
		b.page = strings.ReplaceAll(b.page, sess, "")
	} else if strings.HasPrefix(b.at, "/ops/login") {
		b.sess, b.at = "", ended.ReplaceAllString(b.at, "")
	}
	if csp := resp.Header.Get("Content-Security-Policy"); resp.Header.Get("Content-Type") == "text/html; charset=utf-8" && (csp == "" || strings.Contains(csp, "unsafe")) {
		b.t.Errorf("%s has the policy %q", target, csp)
	}
	if strings.Contains(b.page, " style=") || strings.Contains(b.page, " onclick=") || strings.Contains(b.page, "<script>") {
		b.t.Errorf("%s has something inline that the policy forbids", target)
	}
	return resp.StatusCode
}

// open opens a page below /ops.
func (b *browser) open(path string) int {
	b.t.Helper()
	return b.send(http.MethodGet, b.site.server.URL+"/ops"+path, nil)
}

// want opens a page that has to be there, and looks for texts.
func (b *browser) want(path string, texts ...string) {
	b.t.Helper()
	if status := b.open(path); status != http.StatusOK {
		b.t.Fatalf("%s: %d: %s", path, status, b.page)
	}
	b.has(texts...)
}

func (b *browser) has(texts ...string) {
	b.t.Helper()
	for _, text := range texts {
		if !strings.Contains(b.page, text) {
			b.t.Errorf("%s lacks %q:\n%s", b.at, text, b.page)
		}
	}
}

var (
	forms    = regexp.MustCompile(`(?s)<form([^>]*)>(.*?)</form>`)
	hidden   = regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)">`)
	attrs    = regexp.MustCompile(`(method|action)="([^"]*)"`)
	sessions = regexp.MustCompile(`/s-\w+`)
	ended    = regexp.MustCompile(`[?]ended=yes$|ended=yes&`)
	links    = regexp.MustCompile(`<a [^>]*href="([^"]*)"[^>]*>([^<]*)</a>`)
)

// submit sends the form whose button begins with a text.
func (b *browser) submit(button string, fields map[string]string) int {
	b.t.Helper()
	for _, m := range forms.FindAllStringSubmatch(b.page, -1) {
		if !regexp.MustCompile(`<button[^>]*>` + regexp.QuoteMeta(button)).MatchString(m[2]) {
			continue
		}
		form, to := url.Values{}, map[string]string{}
		for _, h := range hidden.FindAllStringSubmatch(m[2], -1) {
			form.Set(html.UnescapeString(h[1]), html.UnescapeString(h[2]))
		}
		for _, a := range attrs.FindAllStringSubmatch(m[1], -1) {
			to[a[1]] = html.UnescapeString(a[2])
		}
		for name, value := range fields {
			form.Set(name, value)
		}
		if to["method"] == "get" {
			return b.send(http.MethodGet, b.site.server.URL+to["action"]+"?"+form.Encode(), nil)
		}
		return b.send(http.MethodPost, b.site.server.URL+to["action"], form)
	}
	b.t.Fatalf("%s has no form with the button %q:\n%s", b.at, button, b.page)
	return 0
}

// follow follows the link with a text.
func (b *browser) follow(text string) {
	b.t.Helper()
	for _, m := range links.FindAllStringSubmatch(b.page, -1) {
		if !strings.HasPrefix(m[2], text) {
			continue
		}
		at, err := url.Parse(b.site.server.URL + b.at)
		must(b.t, err)
		to, err := at.Parse(html.UnescapeString(m[1]))
		must(b.t, err)
		b.send(http.MethodGet, to.String(), nil)
		return
	}
	b.t.Fatalf("%s has no link %q:\n%s", b.at, text, b.page)
}

// paths are those of all pages.
var paths = []string{"/", "/route/eu_orders", "/parked", "/parked?route=eu_orders&status=held&error=422", "/failures", "/groups", "/event?id=bad-1",
	"/destinations", "/instances", "/tail", "/tail?source=eu_orders&types=order.*", "/operations", "/doctor", "/retention", "/audit", "/config"}

// Pages can be read, and every action done, by links and forms alone.
func TestPagesShowAndMendWithoutJavaScript(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	s.publish("bad-1", `{"customer": "bad", "secret": "s3cret"}`)
	s.publish("good-2", `{"customer": "kind"}`)
	s.until("the group is held", func() bool { return s.count(`SELECT count(*) FROM outrider_parked WHERE status = 'held'`) == 1 })
	s.until("its follower waits", func() bool { return s.count(`SELECT count(*) FROM outrider_parked WHERE status = 'waiting'`) == 1 })
	b := s.signIn(t, "admin")
	for _, path := range paths {
		b.want(path, "<h1>", "alice")
	}
	s.until("the overview names the cause", func() bool { b.want("/"); return strings.Contains(b.page, "unknown &lt;customer&gt;") })
	b.has("1 route needs attention", `href="/ops/route/eu_orders"`)
	b.want("/groups", "g-1", "waiting behind it")
	b.want("/failures", "unknown &lt;customer&gt;", "held 1")

	b.want("/parked?status=held", "bad-1")
	b.follow("bad-1")
	b.has("***", "customer")
	if strings.Contains(b.page, "s3cret") {
		t.Error("a payload is shown that nobody asked for")
	}
	b.follow("Show the values")
	b.has("s3cret")

	b.want("/route/eu_orders")
	if status := b.submit("Pause eu_orders", map[string]string{"reason": "maintenance"}); status != http.StatusOK {
		t.Fatalf("pause: %d %s", status, b.page)
	}
	b.has("Paused route eu_orders")
	if n := s.count(`SELECT count(*) FROM outrider_pause WHERE reason = 'maintenance'`); n != 1 {
		t.Errorf("%d pauses", n)
	}
	b.want("/route/eu_orders")
	b.submit("Resume eu_orders", nil)
	b.has("Resumed route eu_orders")
	if n := s.count(`SELECT count(*) FROM outrider_pause`); n != 0 {
		t.Errorf("%d pauses are left", n)
	}

	b.want("/groups")
	b.submit("Pause the group", nil)
	b.has("Paused group g-1", "Resume this group")
	if n := s.count(`SELECT count(*) FROM outrider_audit WHERE action = 'pause'`); n != 2 {
		t.Errorf("%d pauses in the audit log", n)
	}
	b.submit("Resume this group", nil)
	b.has("Resumed group g-1")
	b.follow("Skip…")
	b.has("cannot be undone", "<b>1</b> message")
	b.submit("Skip 1 message", nil)
	b.has("Skipped 1 message")
	s.until("the follower arrived", func() bool { return s.took.Load() == 1 })
	s.until("nothing is parked", func() bool { return s.count(`SELECT count(*) FROM outrider_parked`) == 0 })

	b.want("/confirm?action=seek&route=eu_orders&to=beginning", "route: <b>eu_orders</b>", "delivered again", "Seek to")
	b.submit("Seek to", nil)
	b.has("continues at")
	s.until("bad-1 is delivered again, and held again", func() bool { return s.count(`SELECT count(*) FROM outrider_parked WHERE status = 'held'`) == 1 })
	s.wrong.Store(false)
	b.want("/groups")
	b.follow("Retry…")
	b.submit("Redrive 1 message", nil)
	s.until("bad-1 and its follower arrived", func() bool { return s.took.Load() >= 3 })
	mendMore(t, s, b)
	b.want("/confirm?action=reload&back=/config")
	b.submit("Reload", nil)
	b.has("Reloaded: 1 route")
	b.want("/audit", "alice by dashboard, token", "seek", "skip")
	b.submit("Sign out", nil)
	if b.open("/"); b.at != "/ops/login" {
		t.Errorf("after signing out the browser is at %s", b.at)
	}
}

// mendMore does what concerns routes and tables as a whole.
func mendMore(t *testing.T, s *site, b *browser) {
	t.Helper()
	b.want("/route/eu_orders", "Pause this part")
	if status := b.submit("Pause this part", map[string]string{"group": "g-9", "address": "x"}); status != http.StatusUnprocessableEntity {
		t.Errorf("an address and a group: %d", status)
	}
	b.want("/route/eu_orders")
	b.submit("Pause this part", map[string]string{"group": "g-9", "reason": "bad data"})
	b.has("Paused group g-9 of route eu_orders")
	b.want("/groups", "g-9", "bad data")
	b.submit("Resume this group", nil)
	b.has("Resumed group g-9")

	b.want("/route/eu_orders")
	if b.follow("Rebase…"); !strings.Contains(b.page, "its cursor is good in this database") {
		t.Errorf("a good cursor can be rebased: %s", b.page)
	}
	b.want("/route/eu_orders")
	b.follow("Rebase a valid cursor…")
	b.has("delivered again", "cannot be taken back")
	b.submit("Rebase to", nil)
	b.has("Route eu_orders continues in")

	s.count(`INSERT INTO outrider_pause (route, address, reason, by, at) SELECT 'gone', '', 'why', 'alice', updated_at FROM outrider_cursor WHERE updated_at IS NOT NULL LIMIT 1 RETURNING 1`)
	b.want("/confirm?action=forget&route=gone", "1 pause", "cannot be undone")
	b.submit("Forget gone", nil)
	b.has("Forgot route gone: 0 cursors, 0 parked messages, 1 pause")
	b.want("/confirm?action=forget&route=eu_orders", "16 cursors", "it starts again as its start says")

	b.want("/doctor", "Examine")
	b.submit("Examine", nil)
	b.has("Source app", "Destination hook", "Route eu_orders", "No problems found")
	b.want("/retention", "so rows stay in the tables")
	b.want("/confirm?action=retain", "Nothing to remove")
	for _, action := range []string{"rebase", "forget"} {
		if n := s.count(`SELECT count(*) FROM outrider_audit WHERE action = '` + action + `'`); n != 1 {
			t.Errorf("%d audit records of %s", n, action)
		}
	}
}

// What a role may not do is neither offered nor done.
func TestG12_PagesHeedRoles(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	s.publish("bad-1", `{"customer": "bad"}`)
	s.until("the group is held", func() bool { return s.count(`SELECT count(*) FROM outrider_parked WHERE status = 'held'`) == 1 })
	b := s.signIn(t, "read")
	for _, path := range paths {
		b.want(path, "read-only")
		if strings.Contains(b.page, `value="pause"`) || strings.Contains(b.page, "/confirm?") {
			t.Errorf("%s offers an action", path)
		}
	}
	form := formToken.FindStringSubmatch(b.page)[1]
	refused := func(who *browser, action string) {
		t.Helper()
		if status := who.open("/confirm?action=" + action); status != http.StatusForbidden {
			t.Errorf("confirming %s: %d", action, status)
		}
		status := who.send(http.MethodPost, s.server.URL+"/ops/do", url.Values{"form": {form}, "action": {action}, "route": {"eu_orders"}, "count": {"1"}, "to": {"end"}})
		if status != http.StatusForbidden {
			t.Errorf("%s: %d", action, status)
		}
	}
	for _, action := range []string{"probe", "pause", "resume", "redrive", "skip", "purge", "seek", "seek-routes", "rebase", "forget", "retain", "reload", "end-transaction", "create-topic", "remove-instance"} {
		refused(b, action)
	}
	b.want("/parked")
	b.follow("bad-1")
	if status := b.open("/parked/eu_orders/" + strings.SplitAfter(b.at, "eu_orders/")[1] + "?payload=show"); status != http.StatusForbidden {
		t.Errorf("the payload is shown: %d", status)
	}
	o := s.signIn(t, "operate")
	form = formToken.FindStringSubmatch(o.page)[1]
	for _, action := range []string{"purge", "seek", "seek-routes", "rebase", "forget", "retain", "reload", "end-transaction", "create-topic", "remove-instance"} {
		refused(o, action)
	}
	if n := s.count(`SELECT count(*) FROM outrider_audit`); n != 0 {
		t.Errorf("%d changes were made", n)
	}
}

var formToken = regexp.MustCompile(`name="form" value="([0-9a-f]{64})"`)

// A form of another page, or of another site, does nothing; a session's cookie is out of
// reach of scripts and of the API.
func TestG12_FormsAndSessionsAreOurs(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	b := s.browser(t)
	b.open("/audit")
	if b.at != "/ops/login?next=%2Faudit" {
		t.Fatalf("without a token the browser is at %s", b.at)
	}
	if status := b.submit("Sign in", map[string]string{"token": tokens["read"] + "x"}); status != http.StatusForbidden {
		t.Errorf("a wrong token: %d", status)
	}
	b.submit("Sign in", map[string]string{"token": tokens["operate"]})
	if b.at != "/ops/audit" {
		t.Errorf("after signing in the browser is at %s", b.at)
	}
	other := s.signIn(t, "operate")
	foreign := formToken.FindStringSubmatch(other.page)[1]
	for name, form := range map[string]string{"none": "", "another session's": foreign} {
		status := b.send(http.MethodPost, s.server.URL+"/ops/do", url.Values{"form": {form}, "action": {"pause"}, "route": {"eu_orders"}})
		if status != http.StatusForbidden {
			t.Errorf("a form with the token %s: %d", name, status)
		}
	}
	b.want("/")
	own := formToken.FindStringSubmatch(b.page)[1]
	b.head.Set("Sec-Fetch-Site", "cross-site")
	if status := b.send(http.MethodPost, s.server.URL+"/ops/do", url.Values{"form": {own}, "action": {"pause"}, "route": {"eu_orders"}}); status != http.StatusForbidden {
		t.Errorf("a form of another site: %d", status)
	}
	b.head.Del("Sec-Fetch-Site")
	if status := b.open("/api/v1/routes"); status != http.StatusUnauthorized {
		t.Errorf("the API takes the cookie of a page: %d", status)
	}
	for _, next := range []string{"//evil.example/", `/\evil.example`, "https://evil.example/"} {
		fresh := s.browser(t)
		fresh.open("/login?next=" + url.QueryEscape(next))
		fresh.submit("Sign in", map[string]string{"token": tokens["read"]})
		if fresh.at != "/ops/" {
			t.Errorf("next %s leads to %s", next, fresh.at)
		}
	}
	if n := s.count(`SELECT count(*) FROM outrider_pause`); n != 0 {
		t.Errorf("%d pauses were made", n)
	}
}

// A header counts as a caller's name on requests of the trusted proxies only, and the name
// has the role that the configuration gives.
func TestG12_IdentityOfATrustedProxy(t *testing.T) {
	t.Parallel()
	trusted := newSite(t, `, identity_header: X-Forwarded-User, identity_proxies: [127.0.0.0/8], identity_roles: {bob: operate, "*": read}`)
	b := trusted.browser(t)
	b.head.Set("X-Forwarded-User", "bob")
	b.want("/route/eu_orders", "operate", "bob")
	b.submit("Pause eu_orders", nil)
	b.has("Paused route")
	b.head.Set("X-Forwarded-User", "carol")
	b.want("/", "read-only", "carol")
	if n := trusted.count(`SELECT count(*) FROM outrider_audit WHERE by = 'bob by dashboard'`); n != 1 {
		t.Errorf("%d records of bob", n)
	}
	if status := b.open("/api/v1/routes"); status != http.StatusOK {
		t.Errorf("the API does not take the header: %d", status)
	}
	b.head["X-Forwarded-User"] = []string{"bob", "carol"}
	if b.open("/"); !strings.HasPrefix(b.at, "/ops/login") {
		t.Errorf("two names lead to %s", b.at)
	}
	far := newSite(t, `, identity_header: X-Forwarded-User, identity_proxies: [10.0.0.0/8], identity_roles: {"*": admin}`)
	c := far.browser(t)
	c.head.Set("X-Forwarded-User", "bob")
	if c.open("/"); !strings.HasPrefix(c.at, "/ops/login") {
		t.Errorf("a header from elsewhere leads to %s", c.at)
	}
}

// A destination of dead messages is one that routes lead to, and a caller that may only look learns how to get actions.
func TestPagesSayWhatLeadsWhereAndHowToAct(t *testing.T) {
	t.Parallel()
	cfg, err := outrider.ParseConfig("test", fmt.Appendf(nil, `
sources: {app: {type: sqlite, path: %q}}
destinations: {out: {type: discard}, dead-letters: {type: discard}}
routes: {eu_orders: {from: app, to: out, middleware: [{poison: {to: dead-letters}}, retry]}}
`, filepath.Join(t.TempDir(), "app.db")))
	must(t, err)
	_, err = operate.Init(t.Context(), cfg)
	must(t, err)
	relay, err := outrider.New(cfg, outrider.WithLogger(slog.New(slog.DiscardHandler)))
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- relay.Run(ctx) }()
	s := &site{t: t, server: httptest.NewServer(http.StripPrefix("/ops", relay.Handler()))}
	t.Cleanup(func() {
		s.server.Close()
		cancel()
		must(t, <-done)
	})
	<-relay.Ready()
	b := s.browser(t)
	b.want("/destinations", `dead messages of <a href="/ops/route/eu_orders">eu_orders</a>`, `from <a href="/ops/route/eu_orders">eu_orders</a>`,
		"read-only", "set admin: {anonymous: operate} in the configuration")
	if strings.Contains(b.page, "no route leads here") {
		t.Errorf("a destination has no route:\n%s", b.page)
	}
	if status := b.open("/confirm?action=purge&status=dead"); status != http.StatusForbidden {
		t.Errorf("a purge: %d", status)
	}
	b.has("this needs the role admin, and you have read: set admin: {anonymous: admin} in the configuration")

	// Charts begin with the process.
	b.open("/data/eu_orders")
	var chart struct {
		At   []int64    `json:"at"`
		Rate []*float64 `json:"rate"`
	}
	must(t, json.Unmarshal([]byte(b.page), &chart))
	if n := len(chart.At); n == 0 || n > 30 || len(chart.Rate) != n {
		t.Errorf("%d points of a process that has just begun: %s", n, b.page)
	}
}

// A browser sends the cookie to every port of the host. Whoever gets it there can do nothing with it, nor learn the path of the session.
func TestG12_AStolenCookieIsUseless(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	b := s.signIn(t, "admin")
	b.want("/audit")
	at, err := url.Parse(s.server.URL + "/ops/")
	must(t, err)
	stolen := b.http.Jar.Cookies(at)
	if len(stolen) != 1 || !strings.HasSuffix(stolen[0].Name, "_"+at.Port()) {
		t.Fatalf("the cookies are %v, want one with the port in its name", stolen)
	}
	thief := s.browser(t)
	thief.http.Jar.SetCookies(at, stolen)
	for _, path := range []string{"/ops/", "/ops/audit", "/ops/login", "/ops/s-/audit", "/ops/s-guess/audit", "/ops/api/v1/routes"} {
		thief.send(http.MethodGet, s.server.URL+path, nil)
		if strings.Contains(thief.page, "eu_orders") || strings.Contains(thief.page, b.sess) || strings.Contains(thief.at, b.sess) {
			t.Errorf("%s shows to whom has the cookie:\n%s\n%s", path, thief.at, thief.page)
		}
	}
	thief.send(http.MethodGet, s.server.URL+"/ops"+b.sess+"/audit", nil) // with both it is the browser
	thief.has("Audit log", "alice")
	b.submit("Sign out", nil)
	if thief.open("/audit"); !strings.HasPrefix(thief.at, "/ops/login") {
		t.Errorf("after signing out the session is at %s", thief.at)
	}
}

// With TLS the cookie has the prefix by which browsers refuse one that another host, or a server without TLS, has set.
func TestG12_TheCookieIsOfOneHost(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	mounted := httptest.NewServer(s.relay.Handler())
	defer mounted.Close()
	for server, want := range map[string]string{mounted.URL: "__Host-outrider_session", s.server.URL + "/ops": "__Secure-outrider_session"} {
		b := s.browser(t)
		b.head.Set("X-Forwarded-Proto", "https")
		b.send(http.MethodGet, server+"/login", nil)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server+"/login", strings.NewReader(url.Values{
			"form": {formToken.FindStringSubmatch(b.page)[1]}, "token": {tokens["read"]}}.Encode()))
		must(t, err)
		req.Header = http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "X-Forwarded-Proto": {"https"}}
		resp, err := http.DefaultTransport.RoundTrip(req)
		must(t, err)
		_ = resp.Body.Close()
		set := resp.Header.Get("Set-Cookie")
		if !strings.HasPrefix(set, want) || !strings.Contains(set, "Secure") || strings.Contains(set, "Domain") || strings.HasPrefix(set, "__Host-") && !strings.Contains(set, "Path=/;") {
			t.Errorf("%s sets the cookie %q, want %s", server, set, want)
		}
	}
}

// The form for a part of a route pauses nothing while its fields are empty.
func TestPausingAPartNeedsThePart(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	b := s.signIn(t, "operate")
	b.want("/route/eu_orders")
	if status := b.submit("Pause this part", map[string]string{"address": " ", "group": ""}); status != http.StatusUnprocessableEntity {
		t.Errorf("an empty form: %d", status)
	}
	b.has("nothing was paused", "give an address or a group")
	if n := s.count(`SELECT count(*) FROM outrider_pause`); n != 0 {
		t.Errorf("%d pauses were made", n)
	}
	b.want("/route/eu_orders")
	b.submit("Pause this part", map[string]string{"group": "g-1"})
	b.has("Paused group g-1")
}

// Groups that wait for an address are blocked, and the overview does not say that nothing waits.
func TestGroupsThatWaitForAnAddressAreShown(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	b := s.signIn(t, "read")
	s.publish("bad-1", `"bad"`)
	s.publish("good-2", `"good"`)
	s.until("one is held and one waits behind it", func() bool {
		return s.count(`SELECT count(*) FROM outrider_parked WHERE status = 'held'`) == 1 && s.count(`SELECT count(*) FROM outrider_parked WHERE status = 'waiting'`) == 1
	})
	s.until("the overview knows of both", func() bool { return b.open("/") == http.StatusOK && strings.Contains(b.page, "2 parked messages wait") })
	b.want("/groups", "bad-1", "No group waits for an address.")
	// As an outage leaves them: nothing of the group has failed.
	db, err := sqlite.Open(s.db)
	must(t, err)
	defer func() { _ = db.Close() }()
	_, err = db.ExecContext(t.Context(), `UPDATE outrider_parked SET status = 'waiting', message_group = 'g-9' WHERE status = 'waiting'`)
	must(t, err)
	b.want("/groups", "g-9", "good-2")
	if strings.Contains(b.page, "No group waits for an address.") {
		t.Error("the group that waits for an address is not there")
	}
}
