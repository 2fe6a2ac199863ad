package debezium

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/outriderhq/outrider/config"
)

var update = flag.Bool("update", false, "write the expected results")

// Every file has its result and notes in a file of its own.
func TestGolden(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.*")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if filepath.Ext(file) == ".golden" {
			continue
		}
		r, err := Import(filepath.Base(file), []byte(content(t, file)))
		if err != nil {
			t.Fatal(err)
		}
		got := string(r.Config) + "### " + strings.ReplaceAll(strings.Join(r.Notes, "\n"), "\n", "\n### ") + "\n"
		if strings.Contains(got, "CANARY") {
			t.Errorf("%s: a secret was copied:\n%s", file, got)
		}
		if strings.Contains(got, "Outrider will not accept") {
			t.Errorf("%s: the result is no configuration", file)
		}
		if *update {
			if err := os.WriteFile(file+".golden", []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if want := content(t, file+".golden"); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", file, got, want)
		}
	}
}

func content(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The result is what the settings say, as Outrider reads it.
func TestResultIsRead(t *testing.T) {
	t.Parallel()
	r, err := Import("connector.json", []byte(content(t, "testdata/connector.json")))
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Parse("outrider.yaml", r.Config, func(name string) (string, bool) { return "value", name != "KAFKA_BROKERS" })
	if err == nil || !strings.Contains(err.Error(), "KAFKA_BROKERS") {
		t.Errorf("without the brokers: %v, %v", cfg, err)
	}
	cfg, err = config.Parse("outrider.yaml", r.Config, func(string) (string, bool) { return "127.0.0.1:9092", true })
	if err != nil {
		t.Fatal(err)
	}
	bus := cfg.Destinations["bus"].(*config.Kafka)
	if v := bus.Debezium; bus.Format != "debezium" || bus.Source != "shop" || v.Value != "json" || !v.Expand || !v.Tombstone || bus.Topic != "shop.{{.AggregateType}}.events" {
		t.Errorf("destination %+v", bus)
	}
	app := cfg.Sources["app"].(*config.Postgres)
	if app.Table != "sales.outbox_events" || app.Columns.ID != "event_id" || app.Columns.Group != "customer_id" || app.Columns.AggregateType != "topic" ||
		len(app.Headers) != 2 || app.Headers[0].Header != "eventType" {
		t.Errorf("source %+v", app)
	}
}

func TestImportRefuses(t *testing.T) {
	t.Parallel()
	const router = `"transforms.outbox.type": "io.debezium.transforms.outbox.EventRouter"`
	for text, want := range map[string]string{
		`{"name": "x", "config": {"transforms": "none"}}`:                                                   "no transform has the type",
		`{` + router + `, "connector.class": "io.debezium.connector.mysql.MySqlConnector"}`:                 "PostgreSQL only",
		`{"config": {` + router + `, "connector.class": "io.debezium.connector.mongodb.MongoDbConnector"}}`: "MongoDbConnector",
	} {
		if _, err := Import("connector.json", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", text, err, want)
		}
	}
}
