package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestImportFlowCatalyst(t *testing.T) {
	dir := t.TempDir()
	theirs, ours := filepath.Join(dir, "application.properties"), filepath.Join(dir, "outrider.yaml")
	text := "outbox-processor.api-base-url=https://api.example.com\noutbox-processor.api-token=CANARY\noutbox-processor.unknown=1\n"
	if err := os.WriteFile(theirs, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	printed := call(t.Context(), "", "import", "flowcatalyst", theirs)
	if printed.code != exitOK || !strings.Contains(printed.out, "preset: flowcatalyst") ||
		!strings.Contains(printed.err, "application.properties:3: outbox-processor.unknown is not a key") {
		t.Errorf("%v", printed)
	}
	written := call(t.Context(), "", "import", "flowcatalyst", theirs, "--output", ours)
	content, err := os.ReadFile(ours)
	if err != nil || written.code != exitOK || written.out != "" || string(content) != printed.out || written.err != printed.err {
		t.Errorf("%v, %v", written, err)
	}
	if strings.Contains(printed.String()+string(content), "CANARY") {
		t.Error("the token was copied")
	}
	again := call(t.Context(), "", "import", "flowcatalyst", theirs, "--output", ours)
	if again.code != exitWrong || !strings.Contains(again.err, "the file exists") {
		t.Errorf("%v", again)
	}
	t.Setenv("DATABASE_URL", "postgres://127.0.0.1/app")
	t.Setenv("API_TOKEN", "x")
	if r := call(t.Context(), "", "validate", "--config", ours); r.code != exitOK || r.err != "" {
		t.Errorf("%v", r)
	}
}

func TestImportCrablet(t *testing.T) {
	dir := t.TempDir()
	theirs, ours := filepath.Join(dir, "application.yaml"), filepath.Join(dir, "outrider.yaml")
	text := "crablet: {outbox: {enabled: true, fetch-size: 10, topics: {wallets: {required-tags: wallet_id, publishers: LogPublisher}}}}\nspring: {datasource: {password: CANARY}}\n"
	if err := os.WriteFile(theirs, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r := call(t.Context(), "", "import", "crablet", theirs, "--output", ours)
	if r.code != exitOK || !strings.Contains(r.err, "application.yaml:1: crablet.outbox.fetch-size is left out") {
		t.Errorf("%v", r)
	}
	content, err := os.ReadFile(ours)
	if err != nil || !strings.Contains(string(content), `progress: {topic: "wallets", publisher: "LogPublisher"}`) || strings.Contains(string(content), "CANARY") {
		t.Errorf("%s, %v", content, err)
	}
	t.Setenv("DATABASE_URL", "postgres://127.0.0.1/app")
	if r := call(t.Context(), "", "validate", "--config", ours); r.code != exitOK || r.err != "" {
		t.Errorf("%v", r)
	}
}

func TestImportDebezium(t *testing.T) {
	ours := filepath.Join(t.TempDir(), "outrider.yaml")
	r := call(t.Context(), "", "import", "debezium", filepath.Join("..", "..", "compat", "debezium", "testdata", "connector.json"), "--output", ours)
	if r.code != exitOK || !strings.Contains(r.err, "connector.json:20: key.converter is left out") {
		t.Errorf("%v", r)
	}
	t.Setenv("DATABASE_PASSWORD", "secret")
	t.Setenv("KAFKA_BROKERS", "127.0.0.1:9092")
	if r := call(t.Context(), "", "validate", "--config", ours); r.code != exitOK || r.err != "" {
		t.Errorf("%v", r)
	}
}

func TestImportRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	oracle := filepath.Join(dir, "application.yaml")
	if err := os.WriteFile(oracle, []byte("outbox-processor: {database-type: ORACLE}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, st := range []step{
		{args: "import flowcatalyst " + oracle, code: 2, err: []string{"application.yaml:1", "none of POSTGRESQL, MYSQL and MONGODB"}},
		{args: "import flowcatalyst /no/such.yaml", code: 2, err: []string{"/no/such.yaml"}},
		{args: "import flowcatalyst", code: 2, err: []string{"accepts 1 arg(s)"}},
		{args: "import other", code: 2, err: []string{`unknown command "other" for "outrider import"`}},
	} {
		st.run(t, nil)
	}
}
