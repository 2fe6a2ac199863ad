package config

import (
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/outriderhq/outrider/adapters/layout"
	"github.com/outriderhq/outrider/config/internal/form"
)

// Column is the name of a column, exactly as
// the database has it, or "=text" for the same text in every row.
type Column string

var columnText = regexp.MustCompile(`^(=.+|[^=\x00-\x1f\x7f][^\x00-\x1f\x7f]*)$`)

// Parse implements form.Scalar.
func (c *Column) Parse(text string) error {
	if !columnText.MatchString(text) {
		return form.Expected("the name of a column such as customer_id, or =text for the same text in every row")
	}
	*c = Column(text)
	return nil
}

// Spelling implements form.Scalar.
func (*Column) Spelling() form.Spelling {
	return form.Spelling{Name: "column", Pattern: columnText.String(), Example: "customer_id"}
}

// String returns the column as it is written.
func (c Column) String() string { return string(c) }

// Columns describes an append-only table of any shape.
type Columns struct {
	Position Column `yaml:"position" doc:"Unique and ascending, usually the identity column: smallint, integer or bigint. Required."`
	XID      Column `yaml:"xid" doc:"Id of the transaction that wrote the row, usually filled by a default: xid8, or bigint with the same value. Required: without it rows that commit late would be lost."`
	ID       Column `yaml:"id" doc:"Event id; any type. Required."`
	Payload  Column `yaml:"payload" doc:"Content: json, jsonb, text or bytea. Text and bytea that are not JSON count as bytes. Required."`

	Type          Column `yaml:"type" doc:"Event type; any type of column, or =text. Required, unless metadata names it."`
	Group         Column `yaml:"group" doc:"Key of the group, whose order is kept; any type. Rows without one have no order."`
	AggregateType Column `yaml:"aggregate_type" doc:"Type of the aggregate; any type of column, or =text."`
	AggregateID   Column `yaml:"aggregate_id" doc:"Id of the aggregate; any type."`
	Tenant        Column `yaml:"tenant" doc:"Tenant; any type of column, or =text."`

	Headers    Column `yaml:"headers" doc:"A JSON object whose values become metadata: json, jsonb or text."`
	Tags       Column `yaml:"tags" doc:"A JSON object: json, jsonb or text. Or an array of KEY=VALUE: text[]."`
	OccurredAt Column `yaml:"occurred_at" doc:"When the event happened: timestamptz, or timestamp in the time zone of Outrider's session."`
	CreatedAt  Column `yaml:"created_at" doc:"When the row was created, in the same types. Needed to start a route at a time, and for the age of messages."`
}

// HeaderFrom is a column that travels as a header.
type HeaderFrom struct {
	Column Column `yaml:"column" required:"true" doc:"Name of the column; any type."`
	Header string `yaml:"header" doc:"Name of the header. Default: that of the column."`
}

// MetadataKeys names keys of a row's headers, which Watermill calls metadata.
type MetadataKeys struct {
	Type          string `yaml:"type" doc:"Key of the event type. Without it: outrider_type, then the topic."`
	Group         string `yaml:"group" doc:"Key of the group, whose order is kept. Without it: outrider_group."`
	AggregateType string `yaml:"aggregate_type" doc:"Key of the aggregate type. Without it: outrider_aggregate_type."`
	AggregateID   string `yaml:"aggregate_id" doc:"Key of the aggregate id. Without it: outrider_aggregate_id."`
	Tenant        string `yaml:"tenant" doc:"Key of the tenant. Without it: outrider_tenant."`
}

// checkLayout checks the keys that describe a table of another layout.
func (p *Postgres) checkLayout(c *form.Checker, at form.Location) {
	if p.Layout != own && !at.Has("table") {
		p.Table = "" // the default is the own table's
	}
	if p.Layout == "watermill" {
		p.checkWatermillSQL(c, at)
	} else {
		for _, key := range []string{"client", "consumer_group", "offsets_table"} {
			onlyIn(c, at, "layout: watermill", key)
		}
	}
	if preset := p.Preset(); preset == nil || !hasProgress(preset) {
		onlyIn(c, at, layoutsWith(hasProgress), "progress_table")
	} else if !at.Has("progress_table") {
		p.Progress = Table(preset.Log.Progress)
	}
	if preset := p.Preset(); preset == nil || !captured(preset) {
		onlyIn(c, at, layoutsWith(captured), "header_columns")
	}
	switch preset := p.Preset(); {
	case p.Layout == own:
		onlyIn(c, at, layoutsWith(hasTopic), "topic")
		onlyIn(c, at, "layout: custom", "columns")
		onlyIn(c, at, layoutsWith(hasHeaders)+" or custom", "metadata")
	case preset != nil && preset.Log != nil:
		if !captured(preset) {
			onlyIn(c, at, "layout: custom", "columns")
		}
		if preset.Log.Columns.Headers == "" {
			onlyIn(c, at, layoutsWith(hasHeaders)+" or custom", "metadata")
		}
		p.checkLog(c, at, preset)
	case p.Layout == custom:
		onlyIn(c, at, layoutsWith(hasTopic), "topic")
		if !at.Has("table") {
			c.Add(at.Child("table"), "a custom layout needs the name of its table").Fix("add table: NAME")
		}
		if at.Has("queue") {
			return // see checkQueue
		}
		p.checkColumns(c, at)
	}
}

// watermillSQLBatch is how many messages watermill-sql's Subscriber reads in a transaction.
const watermillSQLBatch = 100

// checkWatermillSQL refuses keys that watermill-sql's own Subscriber does not have.
func (p *Postgres) checkWatermillSQL(c *form.Checker, at form.Location) {
	if !p.ByWatermillSQL() {
		return
	}
	if at.Has("wake") && p.Wake != "poll" {
		c.Add(at.Child("wake"), "watermill-sql's Subscriber only polls").Fix("remove the key, or client: watermill")
	}
	if !at.Child("poll").Has("batch") {
		p.Poll.Batch = watermillSQLBatch
	}
}

// checkLog checks the keys that name the table of an append-only preset.
func (p *Postgres) checkLog(c *form.Checker, at form.Location, preset *layout.Preset) {
	switch {
	case !hasTopic(preset):
		onlyIn(c, at, layoutsWith(hasTopic), "topic")
		if !at.Has("table") {
			p.Table = Table(preset.Log.Table)
		}
	case !at.Has("topic") && !at.Has("table"):
		c.Add(at.Child("topic"), "a %s table belongs to a topic", preset.Title).
			Fix("give topic: orders for the table %sorders, or table: NAME", preset.Log.TopicPrefix)
	}
}

// onlyIn refuses keys that mean nothing in the layout.
func onlyIn(c *form.Checker, at form.Location, layout, key string) {
	if !at.Has(key) {
		return
	}
	c.Retract(at.Child(key)) // a key that must not be there has one error
	err := c.Add(at.Child(key).Key(), "has an effect with %s only", layout)
	if near := meanings[key]; len(near) > 0 && !at.Has(near[0]) && slices.Contains(form.KeysOf(reflect.TypeFor[Postgres]()), near[0]) {
		err.Fix("did you mean %s? Otherwise remove the key, or set %s", near[0], layout)
		return
	}
	err.Fix("remove the key, or set %s", layout)
}

// checkColumns requires what no row can do without, and constants where they
// make sense.
func (p *Postgres) checkColumns(c *form.Checker, at form.Location) {
	columns(c, at, "position: ..., xid: ..., id: ..., payload: ..., type: ...", map[string]string{
		"position": "add position: NAME of the column whose values ascend, usually the identity column",
		"xid": "add xid: NAME of the column with the transaction that wrote the row; " +
			"docs/tables.md says why, and how to add one to a table without stopping it",
		"id": "add id: NAME of the column that identifies an event", "payload": "add payload: NAME of the column with the content",
	})
	columns := at.Child("columns")
	if readable(columns) && !columns.Has("type") && p.Metadata.Type == "" {
		c.Add(columns.Child("type"), "the column for type is not given").
			Fix(`add type: NAME, type: "=order.changed" for a fixed one, or metadata: {type: KEY of the headers}`)
	}
	if at.Has("metadata") && readable(columns) && !columns.Has("headers") {
		c.Add(at.Child("metadata").Key(), "names keys of the headers, but columns has no headers").Fix("add headers: NAME to columns")
	}
}

// columns checks a mapping of columns such as the example; required has a hint for each that must be given.
func columns(c *form.Checker, at form.Location, example string, required map[string]string) {
	columns := at.Child("columns")
	if !readable(columns) {
		c.Add(columns, "a custom layout needs the names of its columns").Fix("add columns: {%s}", example)
		return
	}
	for key, fix := range required {
		if !columns.Has(key) {
			c.Add(columns.Child(key), "the column for %s is not given", key).Fix("%s", fix)
		}
	}
	for _, key := range columns.Keys() {
		if constant := strings.HasPrefix(columns.Child(key).Text(), "="); constant && key != "type" && key != "aggregate_type" && key != "tenant" {
			c.Add(columns.Child(key), "cannot be the same for every row").Fix("name a column")
		}
	}
}

// readable reports whether the file has a mapping here that could be read.
func readable(at form.Location) bool { return at.IsMapping() && !at.Bad() }
