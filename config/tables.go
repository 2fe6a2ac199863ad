package config

import (
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/outriderhq/outrider/adapters/layout"
)

// Column says where a table keeps something: the name of a column, exactly as
// the database has it, or "=text" for the same text in every row.
type Column string

var columnText = regexp.MustCompile(`^(=.+|[^=\x00-\x1f\x7f][^\x00-\x1f\x7f]*)$`)

func (c *Column) parse(text string) error {
	if !columnText.MatchString(text) {
		return expected("the name of a column such as customer_id, or =text for the same text in every row")
	}
	*c = Column(text)
	return nil
}

func (*Column) form() form {
	return form{name: "column", pattern: columnText.String(), example: "customer_id"}
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

// MetadataKeys names keys of a row's headers, which Watermill calls metadata.
type MetadataKeys struct {
	Type          string `yaml:"type" doc:"Key of the event type. Without it: outrider_type, then the topic."`
	Group         string `yaml:"group" doc:"Key of the group, whose order is kept. Without it: outrider_group."`
	AggregateType string `yaml:"aggregate_type" doc:"Key of the aggregate type. Without it: outrider_aggregate_type."`
	AggregateID   string `yaml:"aggregate_id" doc:"Key of the aggregate id. Without it: outrider_aggregate_id."`
	Tenant        string `yaml:"tenant" doc:"Key of the tenant. Without it: outrider_tenant."`
}

// checkLayout looks at what describes a table that is not of the own layout.
func (p *Postgres) checkLayout(c *checker, at place) {
	if p.Layout != own && !at.has("table") {
		p.Table = "" // the default is the own table's
	}
	if p.Layout == "watermill" {
		p.checkStock(c, at)
	} else {
		for _, key := range []string{"client", "consumer_group", "offsets_table"} {
			c.onlyIn(at, "layout: watermill", key)
		}
	}
	if preset := p.Preset(); preset == nil || !hasProgress(preset) {
		c.onlyIn(at, layoutsWith(hasProgress), "progress_table")
	} else if !at.has("progress_table") {
		p.Progress = Table(preset.Log.Progress)
	}
	switch preset := p.Preset(); {
	case p.Layout == own:
		c.onlyIn(at, layoutsWith(hasTopic), "topic")
		c.onlyIn(at, "layout: custom", "columns")
		c.onlyIn(at, layoutsWith(hasHeaders)+" or custom", "metadata")
	case preset != nil && preset.Log != nil:
		c.onlyIn(at, "layout: custom", "columns")
		if preset.Log.Columns.Headers == "" {
			c.onlyIn(at, layoutsWith(hasHeaders)+" or custom", "metadata")
		}
		p.checkLog(c, at, preset)
	case p.Layout == custom:
		c.onlyIn(at, layoutsWith(hasTopic), "topic")
		if !at.has("table") {
			c.add(at.child("table"), "a custom layout needs the name of its table").hint("add table: NAME")
		}
		if at.has("queue") {
			return // checkQueue looks at it
		}
		p.checkColumns(c, at)
	}
}

// stockBatch is how many messages watermill-sql's Subscriber reads in a transaction.
const stockBatch = 100

// checkStock refuses what the stock Subscriber does not have.
func (p *Postgres) checkStock(c *checker, at place) {
	if !p.Stock() {
		return
	}
	if p.Notified() {
		c.add(at.child("wake"), "watermill-sql's Subscriber only polls").hint("remove the key, or client: watermill")
	}
	if !at.child("poll").has("batch") {
		p.Poll.Batch = stockBatch
	}
}

// checkLog looks at what names the table of a preset that is append-only.
func (p *Postgres) checkLog(c *checker, at place, preset *layout.Preset) {
	switch {
	case !hasTopic(preset):
		c.onlyIn(at, layoutsWith(hasTopic), "topic")
		if !at.has("table") {
			p.Table = Table(preset.Log.Table)
		}
	case !at.has("topic") && !at.has("table"):
		c.add(at.child("topic"), "a %s table belongs to a topic", preset.Title).
			hint("give topic: orders for the table %sorders, or table: NAME", preset.Log.TopicPrefix)
	}
}

// onlyIn refuses keys that mean nothing in the layout.
func (c *checker) onlyIn(at place, layout, key string) {
	if !at.has(key) {
		return
	}
	c.retract(at.child(key).path) // what is wrong inside does not matter then
	err := c.add(at.child(key).key(), "has an effect with %s only", layout)
	if near := meanings[key]; len(near) > 0 && !at.has(near[0]) && slices.Contains(keysOf(reflect.TypeFor[Postgres]()), near[0]) {
		err.hint("did you mean %s? Otherwise remove the key, or set %s", near[0], layout)
		return
	}
	err.hint("remove the key, or set %s", layout)
}

// checkColumns requires what no row can do without, and constants where they
// make sense.
func (p *Postgres) checkColumns(c *checker, at place) {
	c.columns(at, "position: ..., xid: ..., id: ..., payload: ..., type: ...", map[string]string{
		"position": "add position: NAME of the column whose values ascend, usually the identity column",
		"xid": "add xid: NAME of the column with the transaction that wrote the row; " +
			"docs/tables.md says why, and how to add one to a table without stopping it",
		"id": "add id: NAME of the column that identifies an event", "payload": "add payload: NAME of the column with the content",
	})
	columns := at.child("columns")
	if columns.mapping() && !columns.has("type") && p.Metadata.Type == "" {
		c.add(columns.child("type"), "the column for type is not given").
			hint(`add type: NAME, type: "=order.changed" for a fixed one, or metadata: {type: KEY of the headers}`)
	}
	if at.has("metadata") && columns.mapping() && !columns.has("headers") {
		c.add(at.child("metadata").key(), "names keys of the headers, but columns has no headers").hint("add headers: NAME to columns")
	}
}

// columns looks at a mapping of columns such as the example; required says what to do about those
// that are missing.
func (c *checker) columns(at place, example string, required map[string]string) {
	columns := at.child("columns")
	if !columns.mapping() {
		c.add(columns, "a custom layout needs the names of its columns").hint("add columns: {%s}", example)
		return
	}
	for key, fix := range required {
		if !columns.has(key) {
			c.add(columns.child(key), "the column for %s is not given", key).hint("%s", fix)
		}
	}
	for _, e := range columns.entries() {
		constant := strings.HasPrefix(e.value.text, "=")
		if key := e.key.text; constant && key != "type" && key != "aggregate_type" && key != "tenant" {
			c.add(columns.child(key), "cannot be the same for every row").hint("name a column")
		}
	}
}

// mapping reports whether the place holds one that could be read.
func (p place) mapping() bool {
	return p.found && !p.node.bad && p.node.kind == mappingNode
}
