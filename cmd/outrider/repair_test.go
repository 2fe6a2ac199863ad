package main

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/internal/testenv"
)

// A transaction that rows wait for is listed and ended, once.
func TestTransactionsByCommand(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t)
	testenv.AgeTransactions(t, url)
	s := newSite(t, "")
	s.write(fmt.Sprintf("admin: {listen: off}\nsources:\n  app: {type: postgres, url: %q}\n%s", url, toDiscard))
	step{args: "init", out: []string{"created table"}}.run(t, s)
	step{args: "transactions", out: []string{"no transaction has been open for long"}}.run(t, s)
	program, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = program.Close(context.WithoutCancel(t.Context())) }()
	if _, err := program.Exec(t.Context(), "SET application_name = '\x1bnightly-report'; BEGIN; SELECT 'secret'"); err != nil {
		t.Fatal(err)
	}
	var list struct {
		Transactions []struct {
			ID string `json:"id"`
		} `json:"transactions"`
	}
	if r := s.call("transactions", "-o", "json"); json.Unmarshal([]byte(r.out), &list) != nil || len(list.Transactions) != 1 {
		t.Fatal(r)
	}
	id := list.Transactions[0].ID
	for _, st := range []step{
		{args: "transactions --source none", code: 1, err: []string{"no source \"none\""}},
		{args: "transactions", out: []string{"ID", id, "app", "nightly-report", "6m", "idle in transaction", "SELECT '***'"}},
		{args: "status", out: []string{"nightly-report", "has been open for 6m", "to end it: outrider transactions end " + id}},
		{args: "doctor", out: []string{"nightly-report", "outrider transactions end " + id}},
		{args: "transactions end", code: 2, err: []string{"arg"}},
		{args: "transactions end 1-2-3 --yes", out: []string{"it has ended already"}},
		{args: "transactions end " + id, code: 2, out: []string{id}, err: []string{"stdin is not a terminal: pass --yes"}},
		{args: "transactions end " + id + " --yes --by alice", out: []string{"ended: process ", "rolled back"}},
		{args: "transactions end " + id + " --yes -o json", out: []string{`"ended": false`}},
		{args: "transactions", out: []string{"no transaction has been open for long"}},
	} {
		st.run(t, s)
	}
	if err := program.Ping(t.Context()); err == nil {
		t.Error("its session is still there")
	}
}

// A source whose database offers no such thing says so.
func TestWhatASourceCannotDoIsSaid(t *testing.T) {
	t.Parallel()
	s := newSite(t, toDiscard)
	step{args: "init", out: []string{"created table"}}.run(t, s)
	step{args: "transactions --source app", code: 1, err: []string{`source "app": ending transactions is not supported by a source of the type sqlite`}}.run(t, s)
	step{args: "instance remove none", code: 2, err: []string{"pass --yes"}}.run(t, s)
	step{args: "instance remove none --yes", out: []string{"there is no such instance"}}.run(t, s)
	step{args: "topic create none orders", code: 1, err: []string{`there is no destination "none"`}}.run(t, s)
	step{args: "topic create nowhere orders", code: 1, err: []string{"has no topics to create"}}.run(t, s)
}

// A topic is created by the destination that delivers to it, once.
func TestTopicsByCommand(t *testing.T) {
	t.Parallel()
	brokers, topic := testenv.Kafka(t), fmt.Sprintf("command-%d", time.Now().UnixNano())
	s := newSite(t, fmt.Sprintf(`
destinations:
  bus: {type: kafka, brokers: [%q], topic: %s}
  typed: {type: kafka, brokers: [%q], topic: "%s-{{.Type}}", topics: ["*"]}
  dead: {type: kafka, brokers: [%q], topic: "%s-dead-{{ .AggregateType }}"}
routes:
  orders: {from: app, to: bus}
  typed: {from: app, to: typed, match: {types: ["order.*"], aggregate_types: [order]}, middleware: {add: [poison: {to: dead}]}}
`, brokers[0], topic, brokers[0], topic, brokers[0], topic))
	for _, st := range []step{
		{args: "init", out: []string{"created table"}},
		{args: "topic create bus", code: 2, err: []string{"arg"}},
		{args: "topic create bus other --yes", code: 1, err: []string{"the destination delivers to topic"}},
		{args: "topic create bus " + topic + " --partitions -1", code: 2, err: []string{"--partitions"}},
		{args: "topic create bus " + topic, code: 2, err: []string{"pass --yes"}},
		{args: "topic create bus " + topic + " --dry-run", out: []string{"would create"}},
		{args: "topic create bus " + topic + " --yes --by alice --partitions 2", out: []string{"created topic " + topic}},
		{args: "topic create typed " + topic + "-order.made --yes", out: []string{"created topic " + topic + "-order.made"}},
		{args: "topic create typed " + topic + "-invoice.made --yes", code: 1, err: []string{`no route leads to topic "` + topic + `-invoice.made" of destination "typed"`, `Type is "invoice.made"`}},
		{args: "topic create typed orders --yes", code: 1, err: []string{"template"}},
		{args: "topic create dead " + topic + "-dead-order --dry-run", out: []string{"would create"}},
		{args: "topic create dead " + topic + "-dead-user --dry-run", code: 1, err: []string{"no route leads to topic"}},
		{args: "topic create bus " + topic + " --yes", out: []string{"exists"}},
		{args: "topic create bus " + topic + " --yes -o json", out: []string{`"created": false`}},
	} {
		st.run(t, s)
	}
}
