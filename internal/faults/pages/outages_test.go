package pages

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outriderhq/outrider/internal/testenv"
)

// cause is the line of the overview about a route.
func (t *tab) cause(route string) string {
	t.t.Helper()
	return eval[string](t, fmt.Sprintf(`([...document.querySelectorAll("#routes tbody tr")].find(r => r.querySelector("th a")?.textContent === %q)?.querySelector(".cause")?.innerText || "").trim()`, route))
}

// names waits until the overview names a cause and what mends it, and returns the line.
func (t *tab) names(route string, texts ...string) (got string) {
	t.t.Helper()
	t.untilAt("/", fmt.Sprintf("the overview says of %s %q", route, texts), func() bool {
		got = t.cause(route)
		for _, text := range texts {
			if !strings.Contains(got, text) {
				return false
			}
		}
		return true
	})
	t.t.Logf("%s: %s", route, strings.ReplaceAll(got, "\n", " / "))
	return got
}

// act clicks a button or link in the line of a route.
func (t *tab) act(route, text string) {
	t.t.Helper()
	t.open("/")
	t.clickIn(fmt.Sprintf("#routes tbody tr:has(th a[href$=%q]) .cause :is(a, button)", "/route/"+route), text)
}

// reload has the relay read its configuration again, by the page.
func (t *tab) reload() {
	t.t.Helper()
	t.open("/config")
	t.click("Reload the file")
	t.click("Reload")
	t.see("Reloaded:")
}

// Of each outage the overview names the cause in one line, with what mends it, and the page mends it. Where it lies outside of Outrider,
// such as a receiver that hangs, it is removed there first.
func TestOutagesAreMendedThroughThePage(t *testing.T) {
	t.Parallel()
	brokers := testenv.Kafka(t)
	prefix := "dash-" + strings.ToLower(strings.ReplaceAll(t.Name(), "_", "-"))
	moved, missing := prefix+"-moved", prefix+"-missing"
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	must(t, err)
	t.Cleanup(client.Close)
	kafka := kadm.NewClient(client)
	drop := func() { _, _ = kafka.DeleteTopics(context.WithoutCancel(t.Context()), moved, missing) } // there may be none
	drop()
	t.Cleanup(drop)
	_, err = kafka.CreateTopic(t.Context(), 1, 1, nil, moved)
	must(t, err)
	records := func(topic string) int64 {
		ends, err := kafka.ListEndOffsets(t.Context(), topic)
		must(t, err)
		end, _ := ends.Lookup(topic, 0)
		return end.Offset
	}

	s := newScene(t, "anonymous: admin", fmt.Sprintf(`  down: {type: kafka, brokers: ["127.0.0.1:1"], topic: %q}
  bus: {type: kafka, brokers: [%q], topic: %q}
  shut: {type: webhook, url: "RECEIVER/shut", secrets: ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"], allow_private: true, headers: {X-Api-Key: expired}}
`, moved, brokers[0], missing)+fmt.Sprintf(hooks, "crm", "crm")+fmt.Sprintf(hooks, "slow", "hang")+fmt.Sprintf(hooks, "closed", "away"), `
  broker-down: {from: app, to: down, match: {types: ["broker.*"]}}
  topic-missing: {from: app, to: bus, match: {types: ["topic.*"]}}
  poisoned: {from: app, to: crm, match: {types: ["customer.*"]}, middleware: [{poison: {then: hold}}, {retry: {attempts: 1}}]}
  unauthorized: {from: app, to: shut, match: {types: ["shut.*"]}}
  away: {from: app, to: closed, match: {types: ["away.*"]}}
  hanging: {from: app, to: slow, match: {types: ["slow.*"]}, middleware: [poison, {retry: {attempts: 50, base: 1h, max: 1h}}, {timeout: 300ms}]}
`)
	s.rule("bad", http.StatusUnprocessableEntity)
	s.publish(event{"b-1", "broker.x", "", "g1", `{}`}, event{"t-1", "topic.x", "", "g2", `{}`}, event{"p-1", "customer.x", "", "g3", `{"name": "bad"}`},
		event{"p-2", "customer.x", "", "g3", `{}`}, event{"u-1", "shut.x", "", "g4", `{}`}, event{"h-1", "slow.x", "", "g5", `{}`}, event{"a-1", "away.x", "", "g6", `{}`})
	b := newTab(t, s.base)

	// The brokers have moved: the file is mended, and reloaded by the page.
	b.names("broker-down", "127.0.0.1:1", "Outrider is probing it", "Try now", "Reload…")
	s.edit("127.0.0.1:1\"]", brokers[0]+"\"]")
	b.act("broker-down", "Reload…")
	b.click("Reload")
	b.see("Reloaded:")
	b.names("broker-down", "works")
	b.until("b-1 is in the topic", func() bool { return records(moved) == 1 })

	// The topic is created; what waited for it goes there.
	b.names("topic-missing", missing, "is probing it", "Create the topic…")
	b.act("topic-missing", "Create the topic…")
	b.see("Create a topic", missing, "cannot be undone here")
	b.accessible("preview of a new topic")
	b.fill("partitions", "1")
	b.click("Create the topic")
	b.see("Created topic " + missing)
	b.names("topic-missing", "works")
	b.until("t-1 is in the topic", func() bool { return records(missing) == 1 })
	if n := s.count(`SELECT count(*) FROM outrider_audit WHERE action = 'create topic' AND filter::jsonb ->> 'destination' = 'bus'`); n != 1 {
		t.Errorf("%d audit records of the topic", n)
	}

	// A poisoned group: its first message is skipped, the other one arrives.
	b.names("poisoned", "422", "unknown currency", "Redrive or skip", "Blocked groups")
	b.act("poisoned", "Blocked groups")
	b.click("Skip…")
	b.click("Skip 1 message")
	b.see("Skipped 1 message")
	b.names("poisoned", "works")
	b.until("the group goes on", func() bool { return s.taken("/crm") == 1 && s.parked("poisoned", "held") == 0 })

	// The receiver has a new key: the file is mended, and reloaded by the page.
	b.names("unauthorized", "401", "check the credentials")
	s.edit("X-Api-Key: expired", "X-Api-Key: valid")
	b.reload()
	b.names("unauthorized", "works")
	b.until("u-1 arrived", func() bool { return s.taken("/shut") == 1 })

	// A receiver that wants to be left alone for an hour is back: it is tried now.
	b.names("away", "/away", "503", "Try now")
	s.mu.Lock()
	s.back = true
	s.mu.Unlock()
	b.act("away", "Try now")
	b.see("Trying http://")
	b.names("away", "works")
	b.until("a-1 arrived", func() bool { return s.taken("/away") == 1 })

	// A receiver that hung: once it answers, what waits for its next attempt is tried now.
	b.names("hanging", "/hang", "no answer", "Retry now")
	close(s.hold)
	b.act("hanging", "Retry now")
	b.click("Redrive 1 message")
	b.see("Redrove 1 message")
	b.names("hanging", "works")
	b.until("h-1 arrived", func() bool { return s.taken("/hang") == 1 && s.parked("hanging", "retrying") == 0 })
}

// fullDisk has a database answer as PostgreSQL does when its disk is full.
const fullDisk = `
CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	RAISE EXCEPTION USING ERRCODE = 'disk_full', MESSAGE = 'could not extend file "base/16384/2619": No space left on device', HINT = 'Check free disk space.';
END $$;
CREATE TRIGGER full_disk BEFORE UPDATE ON outrider_cursor FOR EACH STATEMENT EXECUTE FUNCTION full_disk()`

// The state of lanes, of the database and of its connections are causes, too. They end by themselves when what the line names has
// been done.
func TestTheOverviewNamesTroubleOfTheDatabase(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	conn, err := pgx.Connect(t.Context(), db)
	must(t, err)
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	exec := func(c *pgx.Conn, sql string) {
		t.Helper()
		_, err := c.Exec(t.Context(), sql)
		must(t, err)
	}
	var name string
	must(t, conn.QueryRow(t.Context(), `SELECT current_database()`).Scan(&name))
	testenv.AgeTransactions(t, db)
	s := newSceneOn(t, db, "anonymous: admin", fmt.Sprintf(hooks, "quiet", "quiet"), "  quiet: {from: app, to: quiet}\n")

	// A transaction that was left open is ended, and rolled back.
	open := s.connect()
	exec(open, `SET application_name = 'nightly-report'; CREATE TABLE report (n int)`)
	exec(open, `BEGIN; INSERT INTO report VALUES (7)`)
	b := newTab(t, s.base)
	b.names("quiet", "transaction", "nightly-report", "has been open for 6m", "SELECT pg_terminate_backend(", "End it…")
	b.act("quiet", "End it…")
	b.see("End a transaction", "nightly-report", "idle in transaction", "6m", "INSERT INTO report", "rolled back", "cannot be undone")
	b.accessible("preview of the end of a transaction")
	b.click("End the transaction")
	b.see("Ended the transaction of nightly-report")
	b.names("quiet", "works")
	if err := open.Ping(t.Context()); err == nil {
		t.Error("the session of the transaction is still there")
	}
	if n := s.count(`SELECT count(*) FROM report`) + s.count(`SELECT count(*) FROM outrider_audit WHERE action = 'end transaction'`); n != 1 {
		t.Errorf("%d rows of the report and audit records; want one record", n)
	}

	// An instance that is alive and takes nothing leaves its share of the lanes unowned.
	ghost := s.connect()
	exec(ghost, `SELECT pg_advisory_lock(hashtextextended('outrider instance ' || 'public' || ' ' || 'ghost', 7710263))`)
	exec(conn, `INSERT INTO outrider_instance (id, lease_until, routes) SELECT 'ghost', now() + interval '1 hour', routes FROM outrider_instance LIMIT 1`)
	b.names("quiet", "lanes have no owner", "relay-1 has", "ghost", "Restart it", "Instances", "Remove ghost…")
	b.act("quiet", "Instances")
	b.see("ghost", "relay-1", "Remove…")
	b.accessible("instances that can be removed")
	b.act("quiet", "Remove ghost…")
	b.see("Remove an instance", "ghost", "others take its lanes", "joins again")
	b.accessible("preview of the removal of an instance")
	b.click("Remove ghost")
	b.see("Removed instance ghost")
	b.names("quiet", "works")
	if err := ghost.Ping(t.Context()); err == nil {
		t.Error("the session of the ghost is still there")
	}
	if n := s.count(`SELECT count(*) FROM outrider_audit WHERE action = 'remove instance'`); n != 1 {
		t.Errorf("%d audit records of the removal", n)
	}

	// The disk of the state store is full: what can be read hides that nothing can be written.
	settled := func() int { return s.count(`SELECT max(position) FROM outrider_cursor WHERE route = 'quiet'`) }
	before := settled()
	exec(conn, fullDisk)
	s.publish(event{"q-1", "quiet.x", "", "g1", `{}`})
	b.names("quiet", "Progress cannot be written", "No space left on device", "Free space on its disk")
	exec(conn, `DROP TRIGGER full_disk ON outrider_cursor`)
	b.names("quiet", "works")
	b.until("q-1 is settled", func() bool { return s.taken("/quiet") >= 1 && settled() > before })

	// The database accepts no connections.
	config := conn.Config().Copy()
	config.Database = "postgres"
	other, err := pgx.ConnectConfig(t.Context(), config)
	must(t, err)
	defer func() { _ = other.Close(context.WithoutCancel(t.Context())) }()
	exec(other, fmt.Sprintf(`ALTER DATABASE %q ALLOW_CONNECTIONS false`, name))
	_, err = other.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1`, name)
	must(t, err)
	b.names("quiet", "state store", "not currently accepting connections", "ALLOW_CONNECTIONS true", "Outrider retries")
	b.accessible("overview without a database")
	exec(other, fmt.Sprintf(`ALTER DATABASE %q ALLOW_CONNECTIONS true`, name))
	b.names("quiet", "works")
	before = settled()
	s.publish(event{"q-2", "quiet.x", "", "g1", `{}`})
	b.until("q-2 is settled", func() bool { return s.taken("/quiet") >= 2 && settled() > before })
}

// The connections of the relay's role are used up: the line says so, with the statement that allows more.
func TestTheOverviewNamesExhaustedConnections(t *testing.T) {
	t.Parallel()
	role := fmt.Sprintf("outrider_pages_%d", os.Getpid())
	var server *pgx.ConnConfig
	t.Cleanup(func() { // after its database is gone
		if server == nil { // it was not made
			return
		}
		conn, err := pgx.ConnectConfig(context.Background(), server)
		must(t, err)
		_, err = conn.Exec(context.Background(), "DROP ROLE "+role)
		must(t, errors.Join(err, conn.Close(context.Background())))
	})
	db := testenv.Postgres(t)
	conn, err := pgx.Connect(t.Context(), db)
	must(t, err)
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	server = conn.Config().Copy()
	name := server.Database
	server.Database = "postgres"
	exec := func(sql string) {
		t.Helper()
		_, err := conn.Exec(t.Context(), sql)
		must(t, err)
	}
	exec("CREATE ROLE " + role + " LOGIN")
	exec(fmt.Sprintf("ALTER DATABASE %q OWNER TO %s", name, role))
	exec("ALTER SCHEMA public OWNER TO " + role)
	other := strings.Replace(db, "postgres://postgres@", "postgres://"+role+"@", 1)
	if other == db {
		t.Skip("the test server's user is not postgres, so its URL cannot be made another user's")
	}
	s := newSceneOn(t, other, "anonymous: admin", fmt.Sprintf(hooks, "quiet", "quiet"), "  quiet: {from: app, to: quiet}\n")
	b := newTab(t, s.base)
	b.names("quiet", "works")

	// Another program of the same role opens connections and never closes them, until none is left for the relay.
	const limit = 12
	exec(fmt.Sprintf("ALTER ROLE %s CONNECTION LIMIT %d", role, limit))
	leak, err := pgx.ParseConfig(other)
	must(t, err)
	leak.RuntimeParams["application_name"] = "leaky"
	var leaked []*pgx.Conn
	defer func() {
		for _, c := range leaked {
			_ = c.Close(context.WithoutCancel(t.Context()))
		}
	}()
	b.until("all connections of the role have leaked", func() bool {
		exec(fmt.Sprintf(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '%s' AND application_name <> 'leaky'`, role))
		for {
			c, err := pgx.ConnectConfig(t.Context(), leak.Copy())
			if err != nil {
				return len(leaked) == limit
			}
			leaked = append(leaked, c)
		}
	})
	line := b.names("quiet", "too many connections for role", "ALTER ROLE "+fmt.Sprintf("%q", role)+" CONNECTION LIMIT -1")
	if n := strings.Count(line, "too many connections"); n != 1 {
		t.Errorf("the line says it %d times: %s", n, line)
	}
	b.accessible("overview without a connection")
	_, statement, _ := strings.Cut(line, "more: ")
	statement, _, _ = strings.Cut(statement, ";")
	exec(statement)
	b.names("quiet", "works")
	s.publish(event{"q-1", "quiet.x", "", "g1", `{}`})
	b.until("q-1 arrived", func() bool { return s.taken("/quiet") == 1 })
}
