package config

import (
	"strings"

	"github.com/outriderhq/outrider/config/internal/form"
)

// SQLite is an outbox table in an SQLite file.
type SQLite struct {
	Path        string `yaml:"path" required:"true" doc:"Path of the database file."`
	TableSource `yaml:",inline"`

	_ form.Key `yaml:"layout" enum:"outrider|{layouts in sqlite}|custom" default:"outrider" doc:"Layout of the table: Outrider's own, that of a known system (docs/layouts.md describes each, with its defaults), or custom: append-only, described by columns, or with a status, described by queue (docs/tables.md)."`
	_ form.Key `yaml:"table" default:"outrider_outbox" doc:"Name of the table. Named layouts default to the original's name; layout custom requires it."`

	Columns SQLiteColumns `yaml:"columns" doc:"With layout custom: columns of the table."`

	_ form.Key `yaml:"tables"`
	_ form.Key `yaml:"queue" doc:"With layout custom, instead of columns: columns of a table whose rows carry a status. Times are text in one format, RFC 3339 or that of SQLite's datetime(), or milliseconds since 1970 in an integer column."`
	_ form.Key `yaml:"claims" doc:"With layout {queue layouts in sqlite}, or with a queue: limits and timeouts of claims."`

	_ form.Key `yaml:"delivered" doc:"With layout {queue layouts in sqlite}, or with a queue: whether a delivered row is kept, with its status, or deleted."`

	_ form.Key `yaml:"wake" doc:"How new rows are found. SQLite cannot notify."`
	_ form.Key `yaml:"poll"`

	_ form.Key `yaml:"max_row"`

	_ form.Key `yaml:"leader" doc:"Cannot be true: an SQLite file has one instance and refuses a second one."`

	Retention *SQLiteRetention `yaml:"retention" doc:"With layout outrider: removes rows that every route has settled. With layout {queue layouts in sqlite}, or with a queue: removes delivered rows. {} is enough. Default: rows are never removed. See docs/retention.md."`
}

// Kind is "sqlite".
func (*SQLite) Kind() string { return "sqlite" }

func (s *SQLite) traits() traits {
	return traits{database: s.Path, state: &sqliteState, log: !s.Queued()}
}

// sqliteState is state in a file: its location is a path, which needs no check.
var sqliteState = stateKind{}

func (s *SQLite) check(c *form.Checker, at form.Location) {
	if s.Leader {
		c.Add(at.Child("leader"), "an SQLite database has one instance in any case, so it needs no leader").
			Fix("remove the key: a second instance is refused when it starts")
	}
	checkPlain(c, at.Child("table"), s.Table)
	checkPlain(c, at.Child("tables").Child("events"), s.Tables.Events)
	checkPlain(c, at.Child("tables").Child("dispatch_jobs"), s.Tables.DispatchJobs)
	if at.Sound("layout") {
		s.checkLayout(c, at)
		s.checkQueue(c, at)
		s.dropDefaults()
	}
}

// checkPlain refuses names of tables that SQLite does not have.
func checkPlain(c *form.Checker, at form.Location, table Table) {
	if table.Schema() != "" {
		c.Add(at, "SQLite has no schemas").Fix("write the name without a dot")
	}
	if strings.Contains(string(table), `"`) {
		c.Add(at, "the name of a table in SQLite needs no quotes").Fix("remove them")
	}
}

// SQLiteColumns describes an append-only table of any shape in SQLite. There is
// one writer at a time, so that no column has to name the transaction.
type SQLiteColumns struct {
	Position Column `yaml:"position" doc:"INTEGER PRIMARY KEY AUTOINCREMENT. Required."`
	ID       Column `yaml:"id" doc:"Event id; any type. Required."`
	Payload  Column `yaml:"payload" doc:"Content. A value that is not JSON counts as bytes. Required."`
	Type     Column `yaml:"type" doc:"Event type; any type of column, or =text. Required."`

	Group         Column `yaml:"group" doc:"Key of the group, whose order is kept; any type. Rows without one have no order."`
	AggregateType Column `yaml:"aggregate_type" doc:"Type of the aggregate; any type of column, or =text."`
	AggregateID   Column `yaml:"aggregate_id" doc:"Id of the aggregate; any type."`
	Tenant        Column `yaml:"tenant" doc:"Tenant; any type of column, or =text."`

	Headers    Column `yaml:"headers" doc:"A JSON object of strings, which become metadata."`
	Tags       Column `yaml:"tags" doc:"A JSON object of strings."`
	OccurredAt Column `yaml:"occurred_at" doc:"When the event happened: text, RFC 3339, or in UTC the format of SQLite's datetime()."`
	CreatedAt  Column `yaml:"created_at" doc:"When the row was created, in the same types. Needed to start a route at a time, to rebase it, and for the age of messages."`
}

// dropDefaults removes the defaults of keys that have no meaning for the table, so that the configuration can be printed and read back.
func (s *SQLite) dropDefaults() {
	if p := s.Preset(); p == nil || !severalTables(p) {
		s.Tables = Queues{}
	}
	s.Leader = false
	if !s.Queued() {
		s.Claims, s.Delivered = Claims{}, ""
	}
}

// checkLayout checks the keys that describe a table of another layout.
func (s *SQLite) checkLayout(c *form.Checker, at form.Location) {
	if s.Layout != own && !at.Has("table") {
		s.Table = "" // the default is the own table's
	}
	if s.Layout == own {
		onlyIn(c, at, "layout: custom", "columns")
		return
	}
	if s.Queued() {
		if s.Layout == custom && !at.Has("table") {
			c.Add(at.Child("table"), "a custom layout needs the name of its table").Fix("add table: NAME")
		}
		return
	}
	if !at.Has("table") {
		c.Add(at.Child("table"), "a custom layout needs the name of its table").Fix("add table: NAME")
	}
	if at.Has("retention") {
		c.Add(at.Child("retention").Key(), "rows of a table of your own are not removed").Fix("remove the key, and delete rows yourself")
	}
	columns(c, at, "position: ..., id: ..., payload: ..., type: ...", map[string]string{
		"position": "add position: NAME of the INTEGER PRIMARY KEY AUTOINCREMENT",
		"id":       "add id: NAME of the column that identifies an event",
		"payload":  "add payload: NAME of the column with the content",
		"type":     `add type: NAME, or type: "=order.changed" for a fixed one`,
	})
}
