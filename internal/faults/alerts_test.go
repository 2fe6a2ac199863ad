package faults_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/internal/testenv/server"
)

// alertRules is the file that operators load.
const alertRules = "../../deploy/prometheus/alerts.yaml"

// monitored skips a test that needs Prometheus, unless `make test-deploy` runs it.
func monitored(t *testing.T) {
	t.Helper()
	if os.Getenv("OUTRIDER_TEST_MONITORING") == "" {
		t.Skip("`make test-deploy` runs it")
	}
}

// The rules are valid, and each fires when it should and not before.
func TestAlertRules(t *testing.T) {
	t.Parallel()
	monitored(t)
	for _, args := range [][]string{{"check", "rules", "alerts.yaml"}, {"test", "rules", "alerts_test.yaml"}} {
		cmd := exec.CommandContext(t.Context(), testenv.Promtool(t), args...)
		cmd.Dir = filepath.Dir(alertRules)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// monitoring is a Prometheus that scrapes the relays of all outages.
type monitoring struct {
	t      *testing.T
	server *server.Prometheus

	mu      sync.Mutex
	targets []string
	fired   map[string]bool
}

// newMonitoring starts one with the rules. Only their pending times are shortened, to a second: what has to be the case is not changed.
func newMonitoring(t *testing.T) *monitoring {
	t.Helper()
	m := &monitoring{t: t, fired: map[string]bool{}}
	rules, err := os.ReadFile(alertRules)
	must(t, err)
	m.server = testenv.StartPrometheus(t, `
global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}
rule_files: [alerts.yaml]
scrape_configs:
  - {job_name: outrider, file_sd_configs: [{files: [targets.json]}]}
`, func(dir string) error {
		if err := os.WriteFile(filepath.Join(dir, "targets.json"), []byte("[]"), 0o600); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, "alerts.yaml"), regexp.MustCompile(`for: \d+[smh]`).ReplaceAll(rules, []byte("for: 1s")), 0o600)
	})
	return m
}

// scrape adds a relay, and returns what Prometheus calls it.
func (m *monitoring) scrape(r *relay) (instance string) {
	m.t.Helper()
	instance = strings.TrimPrefix(r.admin(), "http://")
	m.mu.Lock()
	defer m.mu.Unlock()
	m.targets = append(m.targets, instance)
	text, err := json.Marshal([]map[string][]string{{"targets": m.targets}})
	must(m.t, err)
	file := filepath.Join(m.server.Dir(), "targets.json")
	must(m.t, os.WriteFile(file+".new", text, 0o600))
	must(m.t, os.Rename(file+".new", file))
	return instance
}

// get asks Prometheus.
func (m *monitoring) get(t *testing.T, path string, query url.Values, data any) error {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, m.server.URL()+path+"?"+query.Encode(), http.NoBody)
	must(t, err)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	var answer struct {
		Error string `json:"error"`
		Data  any    `json:"data"`
	}
	answer.Data = data
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return err
	}
	if answer.Error != "" {
		return fmt.Errorf("%s", answer.Error)
	}
	return nil
}

// firing are the alerts of a route, or of an instance, that fire now.
func (m *monitoring) firing(t *testing.T, of string) (names []string) {
	t.Helper()
	var data struct {
		Alerts []struct {
			State  string
			Labels map[string]string
		}
	}
	must(t, m.get(t, "/api/v1/alerts", nil, &data))
	for _, a := range data.Alerts {
		if a.State == "firing" && (a.Labels["route"] == of || a.Labels["instance"] == of) {
			names = append(names, a.Labels["alertname"])
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, n := range names {
		m.fired[n] = true
	}
	return names
}

// seeded is one of the seeded outages, at a route of its name.
type seeded struct {
	*testing.T
	*monitoring
	name     string
	db       *database
	to       *receiver
	config   string
	relay    *relay
	instance string
}

// begin starts the relay of an outage, which delivers.
func (o *seeded) begin(s settings) {
	o.Helper()
	s.database, s.destination = o.db.url, toHTTP(o.to.url())
	s.top = append([]string{`admin: {listen: "127.0.0.1:0"}`, "watchdog: 1s"}, s.top...)
	o.config = strings.ReplaceAll(s.text(), "orders0", o.name)
	o.relay = start(o.T, o.config)
	o.instance = o.scrape(o.relay)
	o.db.fill(batch{n: 20, groups: 20})
	o.relay.until("delivers", func() bool { return o.to.arrived() >= 20 })
	until(o.T, "Prometheus has it, and no alert fires", func() bool {
		var up struct{ Result []any }
		err := o.get(o.T, "/api/v1/query", url.Values{"query": {fmt.Sprintf(`outrider_backlog_rows{instance=%q} == 0`, o.instance)}}, &up)
		return err == nil && len(up.Result) > 0 && len(o.alerts()) == 0
	})
}

func (o *seeded) alerts() []string {
	return slices.Concat(o.firing(o.T, o.name), o.firing(o.T, o.instance))
}

// fires waits for alerts.
func (o *seeded) fires(names ...string) {
	o.Helper()
	for _, name := range names {
		until(o.T, name+" fires", func() bool { return slices.Contains(o.alerts(), name) })
	}
	o.Logf("firing: %v", o.alerts())
}

// ends waits until no alert fires.
func (o *seeded) ends() {
	o.Helper()
	until(o.T, "no alert fires", func() bool { return len(o.alerts()) == 0 })
}

// run runs a command of operators on the route of the outage.
func (o *seeded) run(args ...string) {
	o.Helper()
	o.Log(strings.TrimSpace(command(o.T, append(args, "-c", o.relay.config)...)))
}

// Each alert fires in a seeded outage, at a relay that Prometheus scrapes, and ends when it is mended as docs/alerts.md says.
func TestAlertsFireInOutages(t *testing.T) {
	t.Parallel()
	monitored(t)
	testenv.Postgres(t)
	m := newMonitoring(t)
	refuse := func(*http.Request, []payload) int { return http.StatusUnprocessableEntity }
	var broken sync.Map // outages whose receiver refuses
	t.Run("outages", func(t *testing.T) {
		for name, play := range outages {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				o := &seeded{T: t, monitoring: m, name: name}
				o.to = receive(t, func(r *http.Request, p []payload) int {
					switch how, _ := broken.Load(name); how {
					case "refuses":
						return refuse(r, p)
					case "hangs":
						<-r.Context().Done()
					case "slow":
						pause(r.Context(), 3*time.Second)
					}
					return http.StatusOK
				})
				if name != "database" {
					o.db = newDatabase(t)
				}
				play(o, func(how string) { broken.Store(name, how) })
			})
		}
	})
	rules, err := os.ReadFile(alertRules)
	must(t, err)
	for _, a := range regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(string(rules), -1) {
		if !m.fired[a[1]] {
			t.Errorf("%s fired in no outage", a[1])
		}
	}
	checkDashboard(t, m)
}

// outages are played by name; broken sets how the receiver fails from now on.
var outages = map[string]func(o *seeded, broken func(string)){
	"receiver": func(o *seeded, _ func(string)) {
		o.begin(settings{middleware: "[metrics, poison, retry, timeout, breaker]"})
		o.to.down()
		o.db.fill(batch{n: 5, groups: 5})
		o.fires("OutriderAddressDown", "OutriderRowsOverdue")
		o.to.up()
		o.ends()
	},
	"hangs": func(o *seeded, broken func(string)) {
		o.begin(settings{middleware: "[poison, retry, timeout: 1h]"})
		broken("hangs")
		o.db.fill(batch{n: 5, groups: 5})
		o.fires("OutriderRowsOverdue")
	},
	"database": func(o *seeded, broken func(string)) {
		private := testenv.StartPostgres(o.T)
		o.db = openDatabase(o.T, private.URL())
		o.begin(settings{})
		broken("slow") // what is delivered meanwhile cannot be written down
		o.db.fill(batch{n: 5, groups: 5})
		o.relay.until("delivers the next", func() bool {
			text, err := getAs(o.T, "http://"+o.instance+"/metrics", "")
			return err == nil && strings.Contains(text, `outrider_in_flight{route="database"} 5`)
		})
		private.Kill()
		o.fires("OutriderSourceFailing", "OutriderStateFailing", "OutriderNotReady")
		private.Start()
		o.ends()
	},
	"dies": func(o *seeded, _ func(string)) {
		o.begin(settings{})
		o.relay.kill()
		o.fires("OutriderDown")
	},
	"poison": func(o *seeded, broken func(string)) {
		o.begin(settings{})
		broken("refuses")
		o.db.fill(batch{n: 3, groups: 3})
		o.fires("OutriderDeadMessages")
		broken("")
		o.run("parked", "redrive", "--route", o.name, "--status", "dead", "--yes")
		o.ends()
	},
	"held": func(o *seeded, broken func(string)) {
		o.begin(settings{middleware: "[poison: {then: hold}, retry, timeout]"})
		broken("refuses")
		o.db.fill(batch{n: 4, groups: 2})
		o.fires("OutriderGroupsHeld")
		o.run("pause", o.name, "--group", "g1")
		o.fires("OutriderPaused")
		broken("")
		o.run("resume", o.name, "--group", "g1")
		o.run("parked", "redrive", "--route", o.name, "--status", "held", "--yes")
		o.ends()
	},
	"reload": func(o *seeded, _ func(string)) {
		o.begin(settings{})
		o.relay.configure("bad: true\n" + o.config)
		o.relay.hangUp(`has errors; this process keeps its configuration`, 1)
		o.fires("OutriderReloadFailed")
		o.relay.configure(o.config + "# mended\n")
		o.relay.hangUp(`SIGHUP: reloaded`, 1)
		o.ends()
	},
	// An instance that is registered and takes nothing keeps its share of the lanes, where old rows wait.
	"lanes": func(o *seeded, _ func(string)) {
		o.begin(settings{})
		o.db.exec(`SELECT pg_advisory_lock(hashtextextended('outrider instance public takes-nothing', 7710263))`) // shows that it lives
		o.db.exec(`INSERT INTO outrider_instance (id, lease_until, routes) SELECT 'takes-nothing', now() + interval '1 hour', routes FROM outrider_instance`)
		o.fires("OutriderLanesWithoutOwner")
		o.db.fill(batch{n: 100, groups: 100})
		o.db.exec(`UPDATE outrider_outbox SET created_at = now() - interval '1 hour'`)
		o.fires("OutriderBacklogOld", "OutriderRowsOverdue")
		o.run("instance", "remove", "takes-nothing", "--yes")
		o.ends()
	},
	// The database was restored elsewhere.
	"restored": func(o *seeded, _ func(string)) {
		o.begin(settings{routes: 2})
		o.db.exec(`UPDATE outrider_cursor SET cluster = 'postgresql/1', updated_at = updated_at + interval '1 minute', epoch = epoch + 1 WHERE route = 'restored'`)
		o.fires("OutriderRouteStopped")
		o.run("rebase", o.name, "--yes")
		o.ends()
	},
}

// measured is how long a query of the dashboard looks back.
const measured = 15 * time.Minute
