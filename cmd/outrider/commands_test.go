package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// step is one call and what it has to leave. Streams are compared by what they
// contain; an empty expectation means an empty stream.
type step struct {
	args  string // split at blanks
	stdin string
	code  int
	out   []string
	err   []string
}

func (st step) run(t *testing.T, s *site) {
	t.Helper()
	args := strings.Fields(st.args)
	if s != nil {
		at := len(args)
		if args[0] == "__complete" { // the shell asks about the last argument
			at = 1
		}
		args = slices.Insert(args, at, "--config", s.config)
	}
	got := call(t.Context(), st.stdin, args...)
	if got.code != st.code || !holds(got.out, st.out) || !holds(got.err, st.err) {
		t.Errorf("outrider %s: %v\n\nwant exit %d, stdout %q, stderr %q", st.args, got, st.code, st.out, st.err)
	}
	if n := strings.Count(got.err, "Usage:"); n > 0 {
		t.Errorf("outrider %s dumps its usage:\n%s", st.args, got.err)
	}
	if strings.Contains(got.err, "Error:") || strings.Contains(got.err, "goroutine ") {
		t.Errorf("outrider %s: not for people:\n%s", st.args, got.err)
	}
}

func holds(text string, parts []string) bool {
	if len(parts) == 0 {
		return text == ""
	}
	for _, p := range parts {
		if !strings.Contains(text, p) {
			return false
		}
	}
	return true
}

func TestWrongUsageIsToldWithExitCode2(t *testing.T) {
	t.Parallel()
	for _, st := range []step{
		{args: "nonsense", code: 2, err: []string{`unknown command "nonsense"`, "Try: outrider --help"}},
		{args: "statsu", code: 2, err: []string{"Did you mean this?", "status"}},
		{args: "demo --frob", code: 2, err: []string{"unknown flag: --frob", "Try: outrider demo --help"}},
		{args: "demo extra", code: 2, err: []string{`takes no argument, found "extra"`}},
		{args: "demo --rate 0", code: 2, err: []string{"--rate must be more than 0"}},
		{args: "demo --for -1s", code: 2, err: []string{"more than 0"}},
		{args: "parked nonsense", code: 2, err: []string{`unknown command "nonsense" for "outrider parked"`}},
		{args: "parked show", code: 2, err: []string{"accepts 1 arg(s), received 0"}},
		{args: "version --output xml", code: 2, err: []string{"must be table or json"}},
		{args: "version --log-level loud", code: 2, err: []string{"none of debug, info, warn, error"}},
		{args: "publish one two", code: 2, err: []string{`unknown argument "two"`}},
		{args: "run --config /no/such/file", code: 2, err: []string{"configuration file /no/such/file does not exist", "--config", "schema --example"}},
		{args: "validate --config .", code: 2, err: []string{"is a directory"}},
	} {
		t.Run(st.args, func(t *testing.T) { t.Parallel(); st.run(t, nil) })
	}
}

func TestCommandsThatNeedNoConfiguration(t *testing.T) {
	t.Parallel()
	for _, st := range []step{
		{args: "", out: []string{"outrider demo", "Available Commands:"}},
		{args: "parked", out: []string{"list", "show", "redrive", "skip", "purge"}},
		{args: "version", out: []string{"outrider ", "\ncommit ", "\ndate ", "\ngo1."}},
		{args: "--version", out: []string{"outrider ", "\ncommit ", "\ndate ", "\ngo1."}},
		{args: "version -o json", out: []string{`"version"`, `"go"`, `"platform"`}},
		{args: "schema", out: []string{`"$schema": "https://json-schema.org/draft/2020-12/schema"`}},
		{args: "schema --example", out: []string{"sources:", "${DATABASE_URL}"}},
		{args: "demo --show-config", out: []string{"type: sqlite", "{{.Tenant}}"}},
		{args: "completion bash", out: []string{"bash completion"}},
	} {
		t.Run(st.args, func(t *testing.T) { t.Parallel(); st.run(t, nil) })
	}
}

func TestTheLifeOfASite(t *testing.T) {
	t.Parallel()
	s := newSite(t, toDiscard)
	file := filepath.Join(t.TempDir(), "payload.json")
	if err := os.WriteFile(file, []byte("{\"n\": 2}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, st := range []step{
		{args: "validate", out: []string{"ok: 1 route, 1 source, 1 destination"}},
		{args: "__complete tail a", out: []string{"app", "orders"}, err: []string{"NoFileComp"}},
		{args: "init --print", out: []string{"-- source app", `CREATE TABLE IF NOT EXISTS "outrider_outbox"`}},
		{args: "status", code: 1, err: []string{"app.db", "no such file", "`outrider init` creates it"}},
		{args: "publish --type a --payload 1", code: 1, err: []string{"app.db", "no such file"}},
		{args: "run", code: 1, err: []string{"app.db", "no such file", "`outrider init` creates it"}},
		{args: "init", out: []string{"source app: created table outrider_outbox", "created the state tables"}},
		{args: "init", out: []string{"source app: table outrider_outbox exists", "state tables exist and are up to date"}},
		{args: "status", out: []string{"orders", "(has never run)"}},
		{args: "status -o json", out: []string{`"route": "orders"`, `"alive": false`}},
		{args: "publish --type a --payload {\"n\":1} --group g --id one --header h=1 --header i=2 --tag t=1", out: []string{"one\n"}},
		{args: "publish --type a --id two --payload-file " + file, out: []string{"two\n"}},
		{args: "publish --type a --id three -", stdin: "{\"n\": 3}", out: []string{"three\n"}},
		{args: "publish --type a --id four --payload-file - --binary", stdin: "\x00\xff", out: []string{"four\n"}},
		{args: "publish --type a", code: 2, err: []string{"a message needs a payload"}},
		{args: "publish --type a --payload 1 -", code: 2, err: []string{"pass the payload once"}},
		{args: "publish --type a --payload-file x -", code: 2, err: []string{"pass the payload once"}},
		{args: "publish --type a --payload {", code: 2, err: []string{"is not valid JSON", "--binary"}},
		{args: "publish --payload 1", code: 2, err: []string{"type is required"}},
		{args: "publish --type a --payload 1 --tag t", code: 2, err: []string{`--tag "t" is not of the form name=value`}},
		{args: "publish --type a --payload 1 --source b", code: 2, err: []string{`--source "b": the configuration has app`}},
		{args: "publish --type a --payload-file /no/such", code: 2, err: []string{"/no/such"}},
		{args: "publish --type a --binary -", stdin: strings.Repeat("x", 1<<20+1), code: 2, err: []string{"the limit is 1048576"}},
		{args: "parked list", out: []string{"no parked message matches"}},
		{args: "parked list -o json", out: []string{`"parked": []`}},
		{args: "parked list --route none", code: 2, err: []string{`there is no route "none": the configuration has orders`}},
		{args: "parked list --status ill", code: 2, err: []string{"none of retrying, waiting, held, dead"}},
		{args: "parked list --limit 0", code: 2, err: []string{"--limit must be at least 1"}},
		{args: "parked show x", code: 1, err: []string{`no parked message has the id "x"`}},
		{args: "parked redrive", code: 2, err: []string{"name the messages"}},
		{args: "parked redrive --all --route orders", code: 2, err: []string{"--all takes neither ids nor a filter"}},
		{args: "parked redrive --status waiting", code: 2, err: []string{"waiting messages cannot be redriven"}},
		{args: "parked skip --all", out: []string{"0 messages skipped"}},
		{args: "parked skip x", code: 1, err: []string{"can be skipped"}},
	} {
		st.run(t, s)
	}
}

func TestAStatusWithoutStateTablesSaysWhatToDo(t *testing.T) {
	t.Parallel()
	s := newSite(t, toDiscard)
	if err := os.WriteFile(s.db, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	step{args: "status", code: 1, err: []string{"no such table", "`outrider init` or `outrider run` creates them"}}.run(t, s)
	step{args: "run", code: 1, err: []string{"outbox table outrider_outbox does not exist", "create it with `outrider init`"}}.run(t, s)
}

func TestConfigurationErrorsComeTogetherWithPlaceAndHint(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	s.write("sources:\n  app: {type: sqlite, path: app.db}\ndestinations:\n  d: {type: lgo}\nroutes:\n  orders: {from: ap, to: d}\n")
	for _, command := range []string{"validate", "run", "init", "status", "publish --type a --payload 1", "parked list"} {
		step{args: command, code: 2, err: []string{
			s.config + ":4:13: destinations.d.type:", "   4 |   d: {type: lgo}\n     |             ^\nhint: did you mean log?",
			s.config + ":6:18: routes.orders.from:", `hint: did you mean "app"?`,
		}}.run(t, s)
	}
}

func TestWarningsDoNotFailAValidation(t *testing.T) {
	t.Parallel()
	s := newSite(t, "destinations:\n  api: {type: http, url: \"http://127.0.0.1:1/\", source: x}\nroutes:\n  orders: {from: app, to: api}\n")
	step{args: "validate", out: []string{"ok: 1 route"}, err: []string{"warning: ", "has no effect with format raw"}}.run(t, s)
	if got := s.call("doctor"); !strings.Contains(got.out, "has no effect with format raw\n") || strings.Contains(got.out, "hint:") {
		t.Errorf("a warning of the file is one line, and its fix another: %v", got)
	}
}

func TestWhatOnlyAGoProgramCanSupplyIsRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t, "destinations:\n  own: {type: publisher, topic: t}\nroutes:\n  orders: {from: app, to: own}\n")
	for _, command := range []string{"validate", "run"} {
		step{args: command, code: 2, err: []string{`destination "own" has type publisher: a Go program that embeds Outrider supplies it`, "such as kafka, http or webhook"}}.run(t, s)
	}
}

func TestTheDemoPrintsOneObjectForMachines(t *testing.T) {
	t.Parallel()
	got := call(t.Context(), "", "demo", "--for", "1s", "--output", "json")
	if got.code != exitOK {
		t.Fatal(got)
	}
	var tally map[string]int
	if err := json.Unmarshal([]byte(got.out), &tally); err != nil {
		t.Fatalf("%v:\n%s", err, got.out)
	}
	if len(tally) != 5 || tally["committed"] == 0 || tally["committed"] != tally["delivered"] ||
		tally["duplicates"]+tally["out_of_order"]+tally["lost"] != 0 {
		t.Errorf("tally %v", tally)
	}
}

// Secrets of the configuration are in no command's output.
func TestG12_CommandsShowNoSecret(t *testing.T) {
	t.Parallel()
	const canary = "c4n4ry"
	s := newSite(t, "")
	s.write(`
admin: {listen: off}
sources:
  app: {type: postgres, url: "postgres://u:` + canary + `@127.0.0.1:1/db?connect_timeout=1&application_name=` + canary + `"}
destinations:
  api: {type: http, url: "http://127.0.0.1:1/?key=` + canary + `", token: ` + canary + `, headers: {X-Key: ` + canary + `}}
routes:
  orders: {from: app, to: api}
`)
	for _, command := range []string{"validate", "run --log-level debug", "init", "init --print", "status", "parked list",
		"publish --type a --payload 1"} {
		got := s.call(strings.Fields(command)...)
		if strings.Contains(got.String(), canary) {
			t.Errorf("outrider %s shows a secret: %v", command, got)
		}
	}
}

func TestPlainTakesTerminalCodesAway(t *testing.T) {
	t.Parallel()
	if got := plain("a\x1b[2Jb\tc\r\n"); regexp.MustCompile(`[[:cntrl:]]`).MatchString(got) {
		t.Errorf("%q", got)
	}
}
