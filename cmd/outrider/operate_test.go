package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/outriderhq/outrider/admin/console"
	"github.com/outriderhq/outrider/internal/testenv"
)

func TestOperatorsCommandsWithoutARelay(t *testing.T) {
	t.Parallel()
	s := newSite(t, toDiscard)
	for _, st := range []step{
		{args: "pause orders", code: 1, err: []string{"`outrider init` creates it"}},
		{args: "init", out: []string{"created table"}},
		{args: "pause none", code: 2, err: []string{`there is no route "none": the configuration has orders`}},
		{args: "pause orders --reason maintenance --by alice", out: []string{"route orders is paused; nothing in flight"}},
		{args: "pause orders -o json", out: []string{`"changed": false`, `"at_rest": true`}},
		{args: "status", out: []string{"paused ", "route orders has been paused since", "by alice: maintenance", "outrider resume orders"}},
		{args: "status -o json", out: []string{`"paused": {`, `"by": "alice"`}},
		{args: "doctor -o json", out: []string{`"subject": "pause"`, `"broken": 0`}},
		{args: "resume orders", out: []string{"route orders resumed"}},
		{args: "resume orders", out: []string{"route orders was not paused"}},
		{args: "resume orders --address x", out: []string{`address "x" of route orders was not paused`}},
		{args: "pause orders --address x --wait 0", out: []string{"address x of route orders is paused"}},
		{args: "resume orders", out: []string{"was not paused", `outrider resume orders --address "x"`}},
		{args: "resume orders --address x", out: []string{"resumed"}},
		{args: "pause orders --group g --reason why", out: []string{"group \"g\" of route orders is paused"}},
		{args: "pause orders --group g --address x", code: 2, err: []string{"--address and --group exclude each other"}},
		{args: "resume orders", out: []string{"was not paused", `outrider resume orders --group "g"`}},
		{args: "resume orders --group g", out: []string{`group "g" of route orders resumed`}},
		{args: "resume orders --group g -o json", out: []string{`"group": "g"`, `"changed": false`}},
		{args: "seek orders", code: 2, err: []string{"--to is needed"}},
		{args: "seek orders --to never", code: 2, err: []string{`--to "never" is none of beginning, end, offsets (of watermill-sql), a time`}},
		{args: "seek none --to end", code: 2, err: []string{`there is no route "none"`}},
		{args: "seek orders --to end", code: 2, out: []string{"no row lies between"}, err: []string{"stdin is not a terminal: pass --yes"}},
		{args: "rebase orders --yes", code: 1, err: []string{"has no cursor yet"}},
		{args: "publish --type a --payload 1 --id one", out: []string{"one"}},
		{args: "publish --type b --payload 2 --id two --group g", out: []string{"two"}},
		{args: "seek orders --to 1000 --yes", code: 1, err: []string{"position 1000 is beyond the last one, which is 2", "seek to the end"}},
		{args: "seek orders --to 2999-01-01 --yes", code: 1, err: []string{"2999-01-01T00:00:00Z is in the future", "seek to the end"}},
		{args: "seek orders --to 2 --yes", out: []string{"seek to position 2", "done"}},
		{args: "status", out: []string{"BEHIND", "1 (", "s ago)"}},
		{args: "seek orders --to beginning --dry-run", out: []string{"1 row already settled will be delivered again", "nothing was changed"}},
		{args: "seek orders --to end --dry-run -o json", out: []string{`"skipped": 1`, `"applied": false`}},
		{args: "rebase orders --yes", code: 1, err: []string{"its cursor is good in this database"}},
		{args: "tail app --from beginning -n 2", out: []string{"  one  a  -  1", "  two  b  g  2"}, err: []string{"following app from the beginning"}},
		{args: "tail orders --from 2 -n 1 -o json", out: []string{`"position":2`, `"payload":2`}},
		{args: "tail app --from beginning --match b -n 1", out: []string{"two"}, err: []string{"following"}},
		{args: "tail app --from beginning --match */g -n 1", out: []string{"two"}, err: []string{"following"}},
		{args: "tail none", code: 1, err: []string{`there is no route and no source "none"`}},
		{args: "tail app --match a[", code: 2, err: []string{"--match"}},
		{args: "route forget orders --yes", code: 1, err: []string{"is in the configuration"}},
		{args: "route forget orders --yes --force", out: []string{"route orders: 16 lanes", "forgotten"}},
		{args: "route forget gone", code: 2, err: []string{`there is no route "gone"`}},
	} {
		st.run(t, s)
	}
}

// A route that is worked is forgotten by force only; one that is paused while a
// relay runs rests within a heartbeat and continues when it is resumed.
func TestOperatorsCommandsBesideARelay(t *testing.T) {
	t.Parallel()
	s := newSite(t, "lease: 1s\n"+toLog)
	s.must("init")
	p := s.start("run")
	p.await("ready")
	s.must("publish", "--group", "g", "--type", "a", "--payload", "1", "--id", "first")
	p.await("first")
	s.must("pause", "orders")
	p.await("the route stays paused")
	s.must("publish", "--group", "g", "--type", "a", "--payload", "1", "--id", "second")
	if strings.Contains(p.all(), "second") {
		t.Errorf("a message was delivered while the route was paused:\n%s", p.all())
	}
	s.must("resume", "orders")
	p.await("second")
	s.must("seek", "orders", "--to", "beginning", "--yes")
	p.await("first")
	p.await("second")
	step{args: "route forget orders --yes", code: 1, err: []string{"is in the configuration"}}.run(t, s)
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != exitOK {
		t.Errorf("exit %d:\n%s", code, p.all())
	}
}

func TestTailEndsWithCtrlC(t *testing.T) {
	t.Parallel()
	s := newSite(t, toDiscard)
	s.must("init")
	p := s.start("tail", "app")
	p.await("following app from the end; Ctrl-C ends it")
	p.signal(os.Interrupt)
	if code := p.exit(); code != exitOK {
		t.Errorf("exit %d:\n%s", code, p.all())
	}
}

// levels are the findings of doctor, by part and subject.
func (s *site) levels() map[string]string {
	s.t.Helper()
	r := s.call("doctor", "-o", "json")
	var found struct {
		Broken   int                     `json:"broken"`
		Findings []console.DiagnosisView `json:"findings"`
	}
	if err := json.Unmarshal([]byte(r.out), &found); err != nil {
		s.t.Fatalf("%v: %v", err, r)
	}
	if (found.Broken > 0) != (r.code == exitFailed) {
		s.t.Errorf("%d broken and exit %d", found.Broken, r.code)
	}
	out := map[string]string{}
	for _, f := range found.Findings {
		out[f.Part+": "+f.Subject] = f.Level
		if f.Level == "broken" && f.Fix == "" && f.Part != "config" {
			s.t.Errorf("%s: %s has no fix: %s", f.Part, f.Subject, f.Text)
		}
	}
	return out
}

// Each thing that is broken on purpose is found, and nothing else is.
func TestDoctorFindsWhatIsBroken(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t)
	brokers := testenv.Kafka(t)
	refused := testenv.Refused(t)
	s := newSite(t, "")
	config := func(topic string) {
		s.write(fmt.Sprintf(`
admin: {listen: off}
sources:
  app: {type: postgres, url: %q}
destinations:
  bus: {type: kafka, brokers: [%q], topic: %q}
  api: {type: http, url: "http://%s/"}
routes:
  orders: {from: app, to: bus, match: {types: ["order.*"]}}
  hooks: {from: app, to: api}
`, url, brokers[0], topic, refused))
	}
	exec := func(query string) { t.Helper(); runSQL(t, url, query) }

	want := func(wants map[string]string) {
		t.Helper()
		got := s.levels()
		for what, level := range wants {
			if got[what] != level {
				t.Errorf("%s is %q, want %q (of %v)", what, got[what], level, got)
			}
		}
	}
	config("no-such-topic")
	want(map[string]string{
		"source app: table outrider_outbox": "broken", "state beside app: state tables": "warning", "source app: connection": "ok",
		"destination bus: topic no-such-topic": "broken", "destination api: connection to " + refused: "broken",
	})
	s.must("init")
	config("{{.Type}}")
	want(map[string]string{
		"source app: table outrider_outbox: columns": "ok", "source app: table outrider_outbox: indexes": "ok", "source app: pooler": "ok",
		"source app: clocks": "ok", "state beside app: state tables": "ok", "destination bus: cluster": "ok", "destination bus: topics {{.Type}}": "unknown",
	})
	exec(`DROP INDEX outrider_outbox_slot_xid_position_idx`)
	exec(`ALTER TABLE outrider_outbox ALTER COLUMN position SET CACHE 10, SET (autovacuum_enabled = false)`)
	exec(`INSERT INTO outrider_outbox (type, payload, xid) VALUES ('a', '1', '9000000000000')`)
	want(map[string]string{
		"source app: table outrider_outbox: indexes": "broken", "source app: table outrider_outbox: privileges and sequence": "broken",
		"source app: autovacuum and statistics": "warning", "source app: table outrider_outbox: transaction ids": "warning",
	})
	s.write("sources: {}\n")
	if got := s.levels(); got["config: file"] != "broken" {
		t.Errorf("an invalid configuration is %v", got)
	}
}
