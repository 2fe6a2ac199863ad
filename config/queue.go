package config

import (
	"strconv"

	"github.com/outriderhq/outrider/adapters/layout"
	"github.com/outriderhq/outrider/config/internal/form"
)

// Queues names the tables of layouts that have several. The keys are those of [layout.Table].
type Queues struct {
	Events       Table `yaml:"events" default:"outbox_events" doc:"Table of the events."`
	DispatchJobs Table `yaml:"dispatch_jobs" default:"outbox_dispatch_jobs" doc:"Table of the dispatch jobs."`
}

// Claims bounds the claims of a queue table.
type Claims struct {
	InMemory int      `yaml:"in_memory" default:"1000" min:"1" max:"1000000" doc:"Most rows that are claimed and not settled."`
	PerGroup int      `yaml:"per_group" default:"0" min:"0" max:"1000000" doc:"Most rows of one group among them; 0: a quarter of in_memory."`
	Timeout  Duration `yaml:"timeout" default:"5m" min:"1s" max:"7d" doc:"How long a row may be marked as being processed before it counts as stuck and is put back. Outrider renews its own longer claims in time. Not less than the timeout of other processors on the table."`
	Recover  Duration `yaml:"recover" default:"1m" min:"1s" max:"1h" doc:"Interval between searches for stuck rows."`
}

// HotPath bounds the deliveries from memory.
type HotPath struct {
	Queue      int      `yaml:"queue" default:"1000" min:"0" max:"1000000" doc:"Most committed rows that wait in memory for their lane. The next poll finds the others. 0: no hot path."`
	SkipRecent Duration `yaml:"skip_recent" default:"1s" min:"0s" max:"1h" doc:"Least age of a row that a poll takes while the hot path is in use. Rows that the hot path left are taken at any age."`
}

// Queue describes a table of any shape whose rows carry a status. Names of
// columns are taken exactly as the database has them.
type Queue struct {
	Key     string `yaml:"key" required:"true" doc:"Primary key, and the event id; in PostgreSQL a text, number, uuid, enum, bytea, bit or time, or a domain of one."`
	Type    string `yaml:"type" required:"true" doc:"Event type; any type."`
	Payload string `yaml:"payload" required:"true" doc:"Content: json, jsonb, text or varchar that is JSON; or bytea."`
	Status  string `yaml:"status" required:"true" doc:"Status: text, varchar, an enum or a number. It must take all statuses."`
	Created string `yaml:"created" required:"true" doc:"When the row was created: timestamp or timestamptz, NOT NULL. Rows of a group come in the order of created and key."`
	Claimed string `yaml:"claimed" required:"true" doc:"When the row was marked as being processed: timestamp or timestamptz. Identifies a claim."`

	Group       string `yaml:"group" doc:"Key of the group, whose order is kept; types as of key. Without it rows have no order."`
	Attempts    string `yaml:"attempts" doc:"Failed attempts, a number. Without it they are lost at a restart."`
	NextAttempt string `yaml:"next_attempt" doc:"Time before which the row is not attempted; NULL: at once."`
	Done        string `yaml:"done" doc:"When the row was delivered."`
	Error       string `yaml:"error" doc:"Last error: text or varchar; a longer error is cut."`

	AggregateType string `yaml:"aggregate_type" doc:"Type of the aggregate; any type."`
	AggregateID   string `yaml:"aggregate_id" doc:"Id of the aggregate; any type."`
	Tenant        string `yaml:"tenant" doc:"Tenant; any type."`
	Headers       string `yaml:"headers" doc:"A JSON object of strings, which become metadata: json, jsonb or text."`

	DefaultGroup  string        `yaml:"default_group" doc:"Group of rows whose group is NULL. Default: such rows have no order."`
	TypeInPayload bool          `yaml:"type_in_payload" doc:"Take the type from the payload's field type, if it has one."`
	Statuses      QueueStatuses `yaml:"statuses" doc:"Values of the status column; numbers are quoted: \"1\"."`
}

// QueueStatuses are the values of a status column.
type QueueStatuses struct {
	Pending    string `yaml:"pending" default:"pending" doc:"Waits for its first attempt."`
	Retrying   string `yaml:"retrying" doc:"Waits for its next attempt. Default: as pending."`
	Processing string `yaml:"processing" default:"processing" doc:"Claimed."`
	Done       string `yaml:"done" default:"done" doc:"Delivered."`
	Dead       string `yaml:"dead" default:"dead" doc:"Dead: its attempts are used up, or none can succeed."`
}

// Of returns the name of a layout's table: that which is given for its key, or the usual one.
func (q Queues) Of(t layout.Table) string {
	if name, ok := map[string]Table{"events": q.Events, "dispatch_jobs": q.DispatchJobs}[t.Key]; ok {
		return string(name)
	}
	return t.Name
}

// queueBatch is the default of poll.batch for queue tables.
const queueBatch = 500

// deleted is the value of the key delivered by which rows are deleted.
const deleted = "delete"

// numberWord is a small number in words.
func numberWord(n int) string {
	if words := []string{2: "two", 3: "three", 4: "four"}; n < len(words) {
		return words[n]
	}
	return strconv.Itoa(n)
}

// check requires distinct statuses.
func (q *Queue) check(c *form.Checker, at form.Location) {
	s := &q.Statuses
	known := map[string]string{}
	for _, status := range []struct{ key, value string }{
		{"pending", s.Pending}, {"processing", s.Processing}, {"done", s.Done}, {"dead", s.Dead}, {"retrying", s.Retrying},
	} {
		where := at.Child("statuses").Child(status.key)
		switch other, taken := known[status.value]; {
		case status.value == "" && status.key != "retrying":
			c.Add(where, "the status %s has no value", status.key).Fix("give the value that the table has for it")
		case status.value == "" || status.key == "retrying" && other == "pending":
		case taken:
			c.Add(where, "the statuses %s and %s are the same", other, status.key).Fix("give each its own value")
		}
		known[status.value] = status.key
	}
}
