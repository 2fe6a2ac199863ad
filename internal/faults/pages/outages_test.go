package pages

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outriderhq/outrider/internal/testenv"
)

// cause is what the overview says of a route, in one line.
func (b *tab) cause(route string) string {
	b.t.Helper()
	return eval[string](b, fmt.Sprintf(`([...document.querySelectorAll("#routes tbody tr")].find(r => r.querySelector("th a")?.textContent === %q)?.querySelector(".cause")?.innerText || "").trim()`, route))
}

// names waits until the overview names a cause and what mends it.
func (b *tab) names(route string, texts ...string) {
	b.t.Helper()
	got := ""
	b.until(fmt.Sprintf("the overview says of %s %q", route, texts), func() bool {
		b.open("/")
		got = b.cause(route)
		for _, text := range texts {
			if !strings.Contains(got, text) {
				return false
			}
		}
		return true
	})
	b.t.Logf("%s: %s", route, strings.ReplaceAll(got, "\n", " / "))
}

// act clicks a button or link in the line of a route.
func (b *tab) act(route, text string) {
	b.t.Helper()
	b.open("/")
	b.until(route+" offers "+text, func() bool {
		return eval[bool](b, fmt.Sprintf(`(() => {
			const row = [...document.querySelectorAll("#routes tbody tr")].find(r => r.querySelector("th a")?.textContent === %q);
			const found = row && [...row.querySelectorAll(".cause a, .cause button")].find(e => e.textContent.trim() === %q);
			if (found) found.setAttribute("data-click", "");
			return Boolean(found);
		})()`, route, text))
	})
	b.click(text)
}

// Of each outage the overview names the cause in one line, with what mends it; what an
// operator can mend is mended through the page alone.
func TestTheOverviewNamesEightOutages(t *testing.T) {
	t.Parallel()
	brokers := testenv.Kafka(t)
	topic := "dash-" + strings.ToLower(strings.ReplaceAll(t.Name(), "_", "-"))
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	must(t, err)
	t.Cleanup(client.Close)
	kafka := kadm.NewClient(client)
	drop := func() { _, _ = kafka.DeleteTopics(context.WithoutCancel(t.Context()), topic) } // there may be none
	drop()
	t.Cleanup(drop)

	s := newScene(t, "anonymous: admin", fmt.Sprintf(`  down: {type: kafka, brokers: ["127.0.0.1:1"], topic: orders}
  bus: {type: kafka, brokers: [%q], topic: %q}
`, brokers[0], topic)+fmt.Sprintf(hooks, "crm", "crm")+fmt.Sprintf(hooks, "shut", "shut")+fmt.Sprintf(hooks, "slow", "hang")+fmt.Sprintf(hooks, "quiet", "quiet"), `
  broker-down: {from: app, to: down, match: {types: ["broker.*"]}}
  topic-missing: {from: app, to: bus, match: {types: ["topic.*"]}}
  poisoned: {from: app, to: crm, match: {types: ["customer.*"]}, middleware: [{poison: {then: hold}}, {retry: {attempts: 1}}]}
  unauthorized: {from: app, to: shut, match: {types: ["shut.*"]}}
  hanging: {from: app, to: slow, match: {types: ["slow.*"]}, middleware: [poison, retry, {timeout: 500ms}]}
  quiet: {from: app, to: quiet, match: {types: ["quiet.*"]}}
`)
	s.rule("bad", http.StatusUnprocessableEntity)
	s.rule("/shut", http.StatusUnauthorized)
	s.publish(event{"b-1", "broker.x", "", "g1", `{}`}, event{"t-1", "topic.x", "", "g2", `{}`}, event{"p-1", "customer.x", "", "g3", `{"name": "bad"}`},
		event{"p-2", "customer.x", "", "g3", `{}`}, event{"u-1", "shut.x", "", "g4", `{}`}, event{"h-1", "slow.x", "", "g5", `{}`})
	b := newTab(t, s.base)

	b.names("broker-down", "127.0.0.1:1", "Outrider probes it")
	b.names("topic-missing", topic, "probes it")
	b.names("poisoned", "422", "unknown currency", "Redrive or skip", "Blocked groups")
	b.names("unauthorized", "401")
	b.names("hanging", "/hang")

	// What was mended outside goes on by itself; the page shows it.
	_, err = kafka.CreateTopic(t.Context(), 1, 1, nil, topic)
	must(t, err)
	close(s.hold)
	s.rule("/shut", 0)
	b.names("topic-missing", "works")
	b.until("the slow receiver took its message", func() bool { return s.taken("/hang") >= 1 })

	// A poisoned group: skipped through the page.
	b.act("poisoned", "Blocked groups")
	b.click("Skip…")
	b.click("Skip 1 message")
	b.see("Skipped 1 message")
	b.names("poisoned", "works")
	b.until("the group goes on", func() bool { return s.taken("/crm") == 1 })

	// A receiver that answers again: what is dead or waits is sent again through the page.
	b.until("the message for it is parked, or arrived", func() bool {
		return s.taken("/shut") == 1 || s.parked("unauthorized", "dead") == 1 || s.parked("unauthorized", "retrying") == 1
	})
	if s.taken("/shut") == 0 {
		b.open("/parked?route=unauthorized")
		b.click("Redrive…")
		b.click("Redrive 1 message")
	}
	b.until("u-1 arrived", func() bool { return s.taken("/shut") == 1 })
}

// The state of lanes, of the database and of its connections are causes, too.
func TestTheOverviewNamesTroubleOfTheDatabase(t *testing.T) {
	t.Parallel()
	s := newScene(t, "anonymous: admin", fmt.Sprintf(hooks, "quiet", "quiet"), "  quiet: {from: app, to: quiet}\n")
	b := newTab(t, s.base)
	b.names("quiet", "works")

	// An instance that is alive and takes nothing leaves its share of the lanes unowned.
	conn := s.connect()
	_, err := conn.Exec(t.Context(), `SELECT pg_advisory_lock(hashtextextended('outrider instance ' || 'public' || ' ' || 'ghost', 7710263))`)
	must(t, err)
	_, err = conn.Exec(t.Context(), `INSERT INTO outrider_instance (id, lease_until, routes) SELECT 'ghost', now() + interval '1 hour', routes FROM outrider_instance LIMIT 1`)
	must(t, err)
	b.names("quiet", "lanes have no owner", "relay-1 has", "Instances")
	b.act("quiet", "Instances")
	b.see("ghost", "relay-1")
	_, err = conn.Exec(t.Context(), `DELETE FROM outrider_instance WHERE id = 'ghost'`)
	must(t, err)
	_, err = conn.Exec(t.Context(), `SELECT pg_advisory_unlock_all()`)
	must(t, err)
	b.names("quiet", "works")

	if os.Getenv("OUTRIDER_SOAK") != "" { // it counts as long after 5 minutes
		longTransaction(t, s, b)
	}

	// No connection is left: the database refuses those of the relay.
	var name string
	must(t, conn.QueryRow(t.Context(), `SELECT current_database()`).Scan(&name))
	config := conn.Config().Copy()
	config.Database = "postgres"
	other, err := pgx.ConnectConfig(t.Context(), config)
	must(t, err)
	defer func() { _ = other.Close(context.WithoutCancel(t.Context())) }()
	_, err = other.Exec(t.Context(), fmt.Sprintf(`ALTER DATABASE %q ALLOW_CONNECTIONS false`, name))
	must(t, err)
	_, err = other.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1`, name)
	must(t, err)
	b.names("quiet", "state store", "not currently accepting connections", "Make its database reachable")
	b.accessible("overview without a database")
	_, err = other.Exec(t.Context(), fmt.Sprintf(`ALTER DATABASE %q ALLOW_CONNECTIONS true`, name))
	must(t, err)
	b.names("quiet", "works")
}

// longTransaction opens one in which nothing happens, and waits until it is the cause.
func longTransaction(t *testing.T, s *scene, b *tab) {
	t.Helper()
	conn := s.connect()
	_, err := conn.Exec(t.Context(), `BEGIN; SELECT pg_current_xact_id()`)
	must(t, err)
	for limit := time.Now().Add(7 * time.Minute); time.Now().Before(limit) && !strings.Contains(b.cause("quiet"), "transaction"); {
		eval[bool](b, `new Promise(done => setTimeout(() => done(true), 5000))`, chromedp.EvalAwaitPromise)
		b.open("/")
	}
	b.names("quiet", "transaction", "has been open for", "pg_terminate_backend")
	_, err = conn.Exec(t.Context(), `ROLLBACK`)
	must(t, err)
}
