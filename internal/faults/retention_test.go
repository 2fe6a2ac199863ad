package faults_test

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters/postgres/owntable"
	"github.com/outriderhq/outrider/internal/faults/check"
	"github.com/outriderhq/outrider/internal/testenv"
)

// cleaned is a database whose outbox is cleaned, with a copy of every row that
// was committed.
func cleaned(t *testing.T, partitions bool) *database {
	t.Helper()
	db := newDatabase(t)
	if partitions {
		db.exec("DROP TABLE outrider_outbox")
		_, err := owntable.InitPartitioned(t.Context(), db.pool, "", 10_000)
		must(t, err)
	}
	db.exec(`CREATE TABLE history (id text, message_group text, position bigint)`)
	db.exec(`CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN INSERT INTO history VALUES (NEW.id, coalesce(NEW.message_group, ''), NEW.position); RETURN NULL; END $$`)
	db.exec(`CREATE TRIGGER keep AFTER INSERT ON outrider_outbox FOR EACH ROW EXECUTE FUNCTION keep()`)
	return db
}

// history returns what was committed, removed or not.
func (d *database) history() []check.Row {
	d.t.Helper()
	rows, err := d.pool.Query(d.t.Context(), "SELECT id, message_group, position FROM history")
	must(d.t, err)
	out, err := pgx.CollectRows(rows, pgx.RowToStructByPos[check.Row])
	must(d.t, err)
	return out
}

func (d *database) retained() int { return one[int](d, "SELECT count(*) FROM outrider_outbox") }

// cleaning is a configuration with a retention that keeps nothing; routes are
// "NAME: URL".
func cleaning(db *database, retention string, routes map[string]string) string {
	text := fmt.Sprintf(`admin: {listen: "127.0.0.1:0"}
settle_interval: 20ms
lease: 5s
sources:
  app:
    type: postgres
    url: %q
    poll: {max: 50ms}
    retention: {keep: 0s, every: 1s, %s}
`, db.url, retention)
	var destinations, list strings.Builder
	for name, url := range routes {
		fmt.Fprintf(&destinations, "  to-%s: {type: http, url: %q}\n", name, url)
		fmt.Fprintf(&list, "  %s: {from: app, to: to-%s, window: %d}\n", name, name, killWindow)
	}
	return text + "destinations:\n" + destinations.String() + "routes:\n" + list.String()
}

// TestG1_G2_RetentionBesideKillsAndALaggingRoute: while transactions commit late,
// two instances clean the outbox and are killed in turn, and the receiver of a
// route is down for half of the time, both receivers get every committed row.
func TestG1_G2_RetentionBesideKillsAndALaggingRoute(t *testing.T) {
	t.Parallel()
	for name, retention := range map[string]string{"delete": "batch: 160", "partitions": "mode: partitions, partition_rows: 10000"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := cleaned(t, name == "partitions")
			fast, slow := receive(t, nil), receive(t, nil)
			slow.down()
			config := cleaning(db, retention, map[string]string{"fast": fast.url(), "slow": slow.url()})
			if name == "partitions" {
				db.fill(batch{n: 25_000, groups: 50, prefix: "before"})
			}
			w := write(t, db.pool, false)
			relays := []*relay{start(t, config), start(t, config)}
			for i := range testenv.Brief(4, 6) {
				pause(t.Context(), 500*time.Millisecond+rand.N(time.Second))
				if i == testenv.Brief(2, 3) {
					slow.up()
				}
				relays[i%2].kill()
				relays[i%2] = start(t, config)
			}
			w.stop()
			db.publish("last", 1)
			committed := len(db.history())
			relays[0].until("delivered everything", func() bool { return fast.arrived() >= committed && slow.arrived() >= committed })
			// The remaining relays deliver and settle again what the killed one delivered.
			relays[0].until("settled everything", func() bool {
				return strings.Count(command(t, "status", "--output", "json", "-c", relays[0].config), `"behind": 0`) == 2
			})
			for _, r := range relays {
				r.stop()
			}
			for who, to := range map[string]*receiver{"fast": fast, "slow": slow} {
				report := check.Compare(db.history(), to.all()...)
				t.Logf("%s: %v; %d rows are left", who, report, db.retained())
				if !report.Clean() {
					t.Errorf("%s is not clean: %v", who, report)
				}
			}
			// What stopping has settled goes with the next pass.
			out := command(t, "retention", "--once", "-c", relays[0].config)
			if left := db.retained(); name == "delete" && left > 0 || left > 10_000 {
				t.Errorf("%d rows of %d are left after:\n%s", left, committed, out)
			}
		})
	}
}

// TestG1_RemovedRoutesHoldRowsUntilTheyAreForgotten: a route that is no longer
// configured may come back.
func TestG1_RemovedRoutesHoldRowsUntilTheyAreForgotten(t *testing.T) {
	t.Parallel()
	db := cleaned(t, false)
	kept, removed := receive(t, nil), receive(t, nil)
	both := start(t, cleaning(db, "batch: 100", map[string]string{"kept": kept.url(), "removed": removed.url()}))
	db.fill(batch{n: 50, groups: 20})
	both.until("cleaned what both have", func() bool { return db.retained() == 0 })
	both.stop()

	one := start(t, cleaning(db, "batch: 100", map[string]string{"kept": kept.url()}))
	db.fill(batch{n: 60, groups: 20})
	one.until("delivered the others", func() bool { return kept.arrived() == 110 })
	out := command(t, "retention", "--once", "-c", one.config)
	held := regexp.MustCompile(`outrider_retention_held_seconds\{route="removed",source="app"\} [0-9.]*[1-9]`)
	one.until("tells who holds back", func() bool {
		metrics, err := getAs(t, one.admin()+"/metrics", "")
		return err == nil && held.MatchString(metrics)
	})
	outlast(t, func() {
		if left := db.retained(); left != 60 {
			t.Fatalf("%d rows are left, want the 60 that the removed route has not settled\n%s", left, out)
		}
	})
	command(t, "route", "forget", "removed", "--yes", "-c", one.config)
	one.until("cleaned what the forgotten route held", func() bool { return db.retained() == 0 })
	one.stop()
}
