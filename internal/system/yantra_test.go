package system_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/config"
)

// Yantra's five figures are metrics: lag, pending, failed, rate, and the depth of River's queue. A row that cannot become a job
// fails at once, and its error is in a table of ours.
func TestYantrasFigures(t *testing.T) {
	t.Parallel()
	j := newJobs(t, ", layout: yantra")
	for _, statement := range []string{
		`INSERT INTO outbox_messages SELECT gen_random_uuid(), 'good' || i, 'A', 't', '{}', 'pending', now() FROM generate_series(1, 4) i`,
		`INSERT INTO outbox_messages SELECT gen_random_uuid(), 'bad' || i, 'A', 't', '[]', 'pending', now() FROM generate_series(1, 11) i`,
	} {
		_, err := j.pool.Exec(t.Context(), statement)
		must(t, err)
	}
	stop := j.run()
	eventually(t, "four are jobs and eleven failed", func() bool {
		return j.count(`SELECT count(*) FROM river_job`) == 4 && j.count(`SELECT count(*) FROM outbox_messages WHERE status = 'failed'`) == 11
	})
	stop()
	if n := j.count(`SELECT count(*) FROM outrider_note WHERE dead AND last_error LIKE '%not a JSON object%'`); n != 11 || j.log.count("level=ERROR") < 11 {
		t.Errorf("%d notes and %d lines of the log say why rows failed, want 11", n, j.log.count("level=ERROR"))
	}

	for _, statement := range []string{ // two that wait for an hour, of which the first has failed
		`INSERT INTO outbox_messages SELECT ('00000000-0000-4000-8000-00000000000' || i)::uuid, 'later', 'A', 't', '{}', 'pending', now() - interval '1 minute' FROM generate_series(1, 2) i`,
		`INSERT INTO outrider_note SELECT queue, '00000000-0000-4000-8000-000000000001', 1, now() + interval '1 hour', 'not now', false FROM outrider_note LIMIT 1`,
	} {
		_, err := j.pool.Exec(t.Context(), statement)
		must(t, err)
	}
	j.cfg.Admin.Listen = "127.0.0.1:0"
	relay, err := outrider.New(j.cfg, outrider.WithLogger(slog.New(slog.NewTextHandler(&j.log, nil))))
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- relay.Run(ctx) }()
	defer func() {
		cancel()
		must(t, <-done)
	}()
	select {
	case <-relay.Ready():
	case err := <-done:
		done <- err // for the end
		t.Fatal(err)
	}
	var text string
	eventually(t, "the figures are there", func() bool {
		text = get(t, relay, "/metrics")
		return strings.Contains(text, "outrider_queue_unfinished")
	})
	for _, want := range []string{
		`outrider_queue_unfinished{route="work"} 2`, `outrider_queue_dead{route="work"} 11`, `outrider_destination_depth{destination="jobs"} 4`,
		`outrider_queue_oldest_seconds{route="work"} `, `outrider_delivered_total{route="work"} 0`,
	} {
		if !strings.Contains(text, "\n"+want) {
			t.Errorf("the metrics have no %s in\n%s", want, text)
		}
	}
	want := []string{"YantraOutboxLagCritical", "YantraOutboxLag", "YantraFailedMessages"}
	if got := firing(t, "../../docs/migrate/yantra-alerts.yml", text); !slices.Equal(got, want) {
		t.Errorf("of Yantra's alerts %v fire, want %v in\n%s", got, want, text)
	}
}

// firing are the alerts of a file of rules that fire by metrics of one route.
func firing(t *testing.T, file, metrics string) (alerts []string) {
	t.Helper()
	data, err := os.ReadFile(file)
	must(t, err)
	var rules struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	must(t, yaml.Unmarshal(data, &rules))
	for _, rule := range rules.Groups[0].Rules {
		parts := regexp.MustCompile(`\((\w+)\)(?: > (\d+))?$`).FindStringSubmatch(rule.Expr)
		if parts == nil {
			t.Fatalf("%s: cannot read %q", rule.Alert, rule.Expr)
		}
		value := regexp.MustCompile(`(?m)^` + parts[1] + `\{route="work"\} (\S+)$`).FindStringSubmatch(metrics)
		if value == nil {
			t.Fatalf("%s: there is no metric %s", rule.Alert, parts[1])
		}
		if parts[2] == "" { // it fires without the metric
			continue
		}
		now, err := strconv.ParseFloat(value[1], 64)
		must(t, err)
		limit, err := strconv.ParseFloat(parts[2], 64)
		must(t, err)
		if now > limit {
			alerts = append(alerts, rule.Alert)
		}
	}
	return alerts
}

// Jobs are unique by their arguments, as in Yantra's document: of rows with the same payload River gets one job, and all are processed. The table
// is in partitions, with its payloads compressed.
func TestYantrasJobsAreUniqueByTheirArguments(t *testing.T) {
	t.Parallel()
	j := newJobs(t, ", layout: yantra")
	for _, statement := range []string{
		`DROP TABLE outbox_messages`,
		`CREATE TABLE outbox_messages (id UUID PRIMARY KEY, aggregate_id VARCHAR(255) NOT NULL, aggregate_type VARCHAR(50) NOT NULL, event_type VARCHAR(50) NOT NULL,
			payload JSONB COMPRESSION pglz NOT NULL, status VARCHAR(20) NOT NULL, created_at TIMESTAMP NOT NULL, processed_at TIMESTAMP) PARTITION BY HASH (id)`,
		`CREATE TABLE outbox_messages_0 PARTITION OF outbox_messages FOR VALUES WITH (MODULUS 2, REMAINDER 0)`,
		`CREATE TABLE outbox_messages_1 PARTITION OF outbox_messages FOR VALUES WITH (MODULUS 2, REMAINDER 1)`,
	} {
		_, err := j.pool.Exec(t.Context(), statement)
		must(t, err)
	}
	j.cfg.Destinations["jobs"].(*config.River).Unique.ByArgs = true
	_, err := operate.Init(t.Context(), j.cfg)
	must(t, err)
	_, err = j.pool.Exec(t.Context(), `INSERT INTO outbox_messages SELECT gen_random_uuid(), 'g' || i % 5, 'A', 't',
		json_build_object('n', i / 2, 'text', repeat('yantra', 1000)), 'pending', clock_timestamp() FROM generate_series(0, 39) i`)
	must(t, err)
	stop := j.run()
	defer stop()
	eventually(t, "all are processed", func() bool { return j.count(`SELECT count(*) FROM outbox_messages WHERE status <> 'processed'`) == 0 })
	eventually(t, "the duplicates are counted", func() bool { return j.relay.Stats()[0].Duplicates == 20 })
	stop()
	if n, distinct := j.count(`SELECT count(*) FROM river_job`), j.count(`SELECT count(DISTINCT args->>'n') FROM river_job`); n != 20 || distinct != 20 {
		t.Errorf("40 rows with 20 payloads became %d jobs of %d payloads, want 20", n, distinct)
	}
	if n := j.count(`SELECT count(*) FROM outbox_messages WHERE processed_at IS NULL`) + j.count(`SELECT count(*) FROM outrider_note`); n != 0 {
		t.Errorf("%d rows have no time or have a note", n)
	}
}

// While River's tables are away rows of Yantra wait: no attempt counts, none fails, and all become jobs when the tables are back.
func TestG1_G10_RowsOfYantraWaitWhileRiversTablesAreAway(t *testing.T) {
	t.Parallel()
	j := newJobs(t, ", layout: yantra")
	exec := func(sql string) {
		t.Helper()
		_, err := j.pool.Exec(t.Context(), sql)
		must(t, err)
	}
	insert := func(from, to int) {
		t.Helper()
		exec(fmt.Sprintf(`INSERT INTO outbox_messages SELECT ('00000000-0000-4000-8000-' || lpad(i::text, 12, '0'))::uuid, 'g' || i %% 3, 'A', 't',
			json_build_object('n', i, 'group', 'g' || i %% 3), 'pending', clock_timestamp() FROM generate_series(%d, %d) i`, from, to))
	}
	insert(1, 3)
	stop := j.run()
	defer stop()
	eventually(t, "three are jobs", func() bool { return j.count(`SELECT count(*) FROM river_job`) == 3 })
	exec(`ALTER TABLE river_job RENAME TO river_away`)
	told := j.log.count("river_job")
	insert(4, 30)
	eventually(t, "the log tells of it", func() bool { return j.log.count("river_job") > told })
	insert(31, 60)
	if n := j.count(`SELECT count(*) FROM outbox_messages WHERE status = 'pending'`); n != 57 {
		t.Errorf("%d rows are pending, want 57", n)
	}
	if n := j.count(`SELECT count(*) FROM outrider_note`); n != 0 {
		t.Errorf("%d rows have a note of an attempt, want none", n)
	}
	exec(`ALTER TABLE river_away RENAME TO river_job`)
	eventually(t, "all are processed", func() bool { return j.count(`SELECT count(*) FROM outbox_messages WHERE status <> 'processed'`) == 0 })
	stop()
	if n := j.count(`SELECT count(*) FROM river_job`); n != 60 {
		t.Errorf("%d jobs, want 60", n)
	}
	j.order()
}
