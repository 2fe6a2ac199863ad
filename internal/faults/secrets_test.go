package faults_test

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/outriderhq/outrider/internal/testenv"
)

// canary is the secret that no output may contain. It needs escaping in a URL,
// and its parts are searched for, too: half a secret is one. They are so long that
// none turns up in a signature by chance.
const canary = "canary-Lq7mHb4s/wX2kPd8n%zT9vRc5w"

// leaks returns where a text contains the canary, as it is or as URLs write it.
func leaks(text string) string {
	for _, form := range []string{canary, url.QueryEscape(canary), url.PathEscape(canary), "Lq7mHb4s", "wX2kPd8n", "zT9vRc5w"} {
		if i := strings.Index(text, form); i >= 0 {
			return text[max(0, i-200):min(len(text), i+100)]
		}
	}
	return ""
}

func search(t *testing.T, what, text string) {
	t.Helper()
	if found := leaks(text); found != "" {
		t.Errorf("%s shows a secret: ...%s...", what, found)
	}
}

// withPassword returns a database's URL with the canary as its password, which a
// server with method trust ignores.
func withPassword(t *testing.T, database string) *url.URL {
	t.Helper()
	u, err := url.Parse(database)
	must(t, err)
	u.User = url.UserPassword(u.User.Username(), canary)
	return u
}

// secretDestinations are destinations that all fail, each with the canary
// wherever it has a place for a secret.
func secretDestinations(t *testing.T, kafka []string) []string {
	t.Helper()
	// Its response repeats the whole request.
	echo := receiveWith(t, func(_ *receiver, w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Location", "http://"+req.Host+req.URL.String()+"&again="+url.QueryEscape(canary))
		status := map[string]int{"/400": 400, "/302": 302, "/401": 401, "/500": 500, "/503": 503}[req.URL.Path]
		w.WriteHeader(status)
		fmt.Fprintf(w, "refused: %s %s %s %v", req.Method, req.URL, req.RequestURI, req.Header)
	})
	query := "?key=" + url.QueryEscape(canary)
	auth := fmt.Sprintf(", token: %q, headers: {X-Api-Key: %q}", canary, canary)
	out := []string{toHTTP("http://"+testenv.Refused(t)+"/down"+query) + auth}
	for _, path := range []string{"/400", "/302", "/401", "/500", "/503"} {
		out = append(out, toHTTP(echo.url()+path+query)+auth)
	}
	headers := fmt.Sprintf(", headers: {X-Api-Key: %q}", canary)
	for _, url := range []string{"http://" + testenv.Refused(t) + "/down", echo.url() + "/400", echo.url() + "/302"} {
		out = append(out, toWebhook(url+query)+headers)
	}
	for _, mechanism := range []string{"plain", "scram-sha-256", "scram-sha-512"} {
		for _, brokers := range [][]string{kafka, {testenv.Refused(t)}} {
			out = append(out, toKafka(brokers, "faults-none")+
				fmt.Sprintf(", timeout: 2s, sasl: {mechanism: %s, username: me, password: %q}", mechanism, canary))
		}
	}
	return out
}

func TestG12_SecretsAppearNowhere(t *testing.T) {
	t.Parallel()
	kafka := testenv.Kafka(t)
	for i, destination := range secretDestinations(t, kafka) {
		name, _, _ := strings.Cut(destination, canary)
		t.Run(fmt.Sprint(i, " ", strings.Fields(name)[1]), func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t)
			tokens := filepath.Join(t.TempDir(), "tokens")
			must(t, os.WriteFile(tokens, []byte(canary+"\n"), 0o600))
			s := settings{
				database: withPassword(t, db.url).String(), destination: destination,
				top: []string{
					"log: {level: debug}", fmt.Sprintf("state: {url: %q}", withPassword(t, db.url)),
					fmt.Sprintf("admin: {listen: '127.0.0.1:0', tokens_file: %q}", tokens),
				},
			}
			db.fill(batch{n: 20, groups: 4})
			r := start(t, s.text())
			admin := r.admin()
			r.says("address is down|message is dead")
			for _, path := range []string{"/livez", "/readyz", "/metrics", "/"} {
				body, err := getAs(t, admin+path, canary)
				must(t, err)
				search(t, path, body)
				if path == "/metrics" && !strings.Contains(body, "outrider_delivered_total") {
					t.Errorf("there are no metrics: %s", body)
				}
			}
			file := r.config
			for _, args := range [][]string{
				{"status"}, {"status", "--lanes", "--output", "json"}, {"parked", "list"}, {"parked", "list", "--output", "json"}, {"validate"},
			} {
				search(t, strings.Join(args, " "), command(t, append(args, "-c", file)...))
			}
			r.stop()
			search(t, "the log", r.output())
			search(t, "what is parked", one[string](db, "SELECT coalesce(string_agg(p::text, ' '), '') FROM outrider_parked p"))
			t.Logf("1 failing destination, %d bytes of log at level debug: the canary is nowhere", len(r.output()))
		})
	}
}

func TestG12_FailingStartsShowNoSecret(t *testing.T) {
	t.Parallel()
	database := testenv.Postgres(t)
	change := func(f func(*url.URL)) string {
		u := withPassword(t, database)
		f(u)
		return u.String()
	}
	down := change(func(u *url.URL) { u.Host = testenv.Refused(t) })
	for name, s := range map[string]settings{
		"source down":        {database: down},
		"no such database":   {database: change(func(u *url.URL) { u.Path = "/faults_none" })},
		"no such user":       {database: change(func(u *url.URL) { u.User = url.UserPassword("faults_nobody", canary) })},
		"no table":           {database: withPassword(t, testenv.Postgres(t)).String()}, // one of its own: init makes the table
		"no TLS":             {database: change(func(u *url.URL) { u.RawQuery = "sslmode=require" })},
		"impossible setting": {database: change(func(u *url.URL) { u.RawQuery = "sslmode=maybe&sslpassword=" + url.QueryEscape(canary) })},
		"unknown setting":    {database: change(func(u *url.URL) { u.RawQuery += "&nonsense=" + url.QueryEscape(canary) })},
		"impossible port":    {database: "postgres://me:" + url.QueryEscape(canary) + "@127.0.0.1:port/db"},
		"unescaped password": {database: "postgres://me:" + canary + "@127.0.0.1:1/db"},
		"state down":         {database: database, top: []string{fmt.Sprintf("state: {url: %q}", down)}},
		"state impossible":   {database: database, top: []string{fmt.Sprintf("state: {url: %q}", "postgres://me:"+canary+"@:x/db")}},
		"user in the URL":    {database: database, destination: toHTTP("http://me:" + url.QueryEscape(canary) + "@127.0.0.1:1/")},
		"broken template":    {database: database, destination: toHTTP("http://127.0.0.1:1/?key=" + url.QueryEscape(canary) + "&x={{.Nonsense}}")},
		"wrong type":         {database: database, destination: fmt.Sprintf("type: http, url: 'http://127.0.0.1:1', token: [%q]", canary)},
		"wrong header":       {database: database, destination: fmt.Sprintf("type: http, url: 'http://127.0.0.1:1', headers: {'a b': %q}", canary)},
		"unknown mechanism":  {database: database, destination: fmt.Sprintf("type: kafka, brokers: ['127.0.0.1:1'], topic: t, sasl: {mechanism: none, username: me, password: %q}", canary)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if s.destination == "" {
				s.destination = "type: discard"
			}
			s.top = append(s.top, "log: {level: debug}")
			r := start(t, s.text())
			if err := r.wait(); err == nil {
				t.Error("the relay ended with status 0, want a failure")
			}
			text := r.output()
			search(t, "the log", text)
			t.Logf("the relay ends with: %s", text)
			for _, args := range [][]string{{"validate"}, {"status"}, {"init"}, {"parked", "list"}} {
				search(t, args[0], command(t, append(args, "-c", r.config)...))
			}
		})
	}
}
