package main

import (
	"github.com/outriderhq/outrider/admin/console"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/admin/status"
)

// The answers of commands with -o json, where a type of package admin is not the whole of it. Programs rely on them: fields are
// only added. docs/cli.md is made of these types and their doc tags.

type validateAnswer struct {
	Valid    bool      `json:"valid"`
	Errors   []problem `json:"errors"`
	Warnings []problem `json:"warnings" doc:"Mistakes that do not prevent a start."`
	Notes    []problem `json:"notes"`
}

type initAnswer struct {
	Done       []string    `json:"done,omitzero" doc:"Tables, indexes and triggers that were created or exist; absent with --print and --dry-run."`
	WouldAdd   []string    `json:"would_add,omitzero" doc:"With --dry-run: additions to existing tables in MariaDB and MySQL."`
	Statements []statement `json:"statements,omitzero" doc:"With --print, in the order to run them in."`
}

type statement struct {
	For string `json:"for" doc:"Such as source app, or state."`
	SQL string `json:"sql" doc:"Statements, and grants as comments; for MongoDB: commands of its shell."`
}

type doctorAnswer struct {
	Findings []console.DiagnosisView `json:"findings"`
	Broken   int                     `json:"broken" doc:"Findings of this level; the exit code is 1 if there are any."`
	Warnings int                     `json:"warnings"`
}

type publishAnswer struct {
	ID     string   `json:"id" doc:"Event id."`
	Source string   `json:"source"`
	Routes []string `json:"routes" doc:"Routes that match the message; empty: nothing will deliver it."`
}

type statusAnswer struct {
	Status    []status.RouteStatus `json:"status" doc:"Routes, the worst state first; with --lanes: lanes."`
	Instances []status.Member      `json:"instances"`
}

type parkedAnswer struct {
	Parked []parkedMessage `json:"parked"`
	More   bool            `json:"more" doc:"More messages match than --limit."`
}

// changeAnswer is the answer of redrive, skip and purge. What a call does not do is absent.
type changeAnswer struct {
	Action      string                  `json:"action" enum:"redrive,skip,purge,seek"`
	DryRun      bool                    `json:"dry_run,omitempty"`
	WouldChange *int                    `json:"would_change,omitempty" doc:"With --dry-run: number of messages."`
	Matching    []matching              `json:"matching,omitzero" doc:"With --dry-run: their numbers by route and status."`
	Changed     *int                    `json:"changed,omitempty" doc:"Messages, or routes of a seek, that were changed; absent with --dry-run and --detach."`
	Operations  []operate.OperationView `json:"operations,omitzero" doc:"Of a filter or --all: the operations that did it, or that a relay does."`
}

type operationsAnswer struct {
	Operations []operate.OperationView `json:"operations" doc:"The newest first."`
}

type transactionsAnswer struct {
	Transactions []operate.Transaction `json:"transactions"`
}

type endAnswer struct {
	ID    string `json:"id"`
	Ended bool   `json:"ended" doc:"false: it had ended already."`
}

type retentionAnswer struct {
	Removed   bool                    `json:"removed" doc:"true with --once; otherwise the rows are only counted."`
	Retention []operate.RetentionView `json:"retention"`
}

type forgetAnswer struct {
	Route  string `json:"route"`
	Lanes  int    `json:"lanes" doc:"Deleted cursors."`
	Parked int    `json:"parked" doc:"Deleted parked messages."`
	Pauses int    `json:"pauses" doc:"Deleted pauses."`
}

type instanceAnswer struct {
	Instance string `json:"instance"`
	Removed  bool   `json:"removed" doc:"false: there is no such instance."`
}

type topicAnswer struct {
	Topic   string `json:"topic"`
	Created bool   `json:"created" doc:"false: it exists. With --dry-run: it would be created."`
	DryRun  bool   `json:"dry_run"`
}
