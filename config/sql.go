package config

import (
	"net/url"
	"slices"
	"strings"

	"github.com/outriderhq/outrider/adapters/layout"
	"github.com/outriderhq/outrider/config/internal/form"
)

// SQL writes messages into another outbox table.
type SQL struct {
	URL     SecretURL `yaml:"url" required:"true" doc:"postgres:// URL of the database with the table. If host, port and name are those of the route's state (for a queue table: of its source), each message becomes exactly one row: both are committed together, on the connection of state or source. Otherwise at least one, and a unique index on the event id removes duplicates."`
	TLS     TLS       `yaml:"tls" doc:"Encryption of the connections, as for a source."`
	Layout  string    `yaml:"layout" enum:"outrider|{layouts}" default:"outrider" doc:"Layout of the table, as for a source: Outrider's own, or a named layout. docs/sql.md lists the values that each keeps of a message."`
	Table   Table     `yaml:"table" default:"outrider_outbox" doc:"Name of the table, with its schema if that is not in the search path. Layout watermill defaults to watermill_TOPIC, other named layouts to the original's name."`
	Tables  Queues    `yaml:"tables" doc:"With layout {layouts with several tables}: names of its tables. The kind of a message selects the table; the first gets messages without a kind."`
	Topic   string    `yaml:"topic" doc:"With layout {layouts with topics}: the topic of the table."`
	EventID Template  `yaml:"event_id" default:"{{.ID}}" doc:"Event id of a row; a template. If ids are numbers, as with layout talkie, add the database's name as a prefix, as in shop-{{.ID}}, so that ids of two databases differ."`
	Type    Template  `yaml:"event_type" default:"{{.Type}}" doc:"Type of a row; a template. With layout talkie it is the topic."`
	Group   Template  `yaml:"group" default:"{{.Group}}" doc:"Group of a row, whose order is kept; a template. A message without a group gets none."`
	Notify  bool      `yaml:"notify" default:"false" doc:"Wake a sleeping relay that reads the table with wake: notify."`
	Batch   SQLBatch  `yaml:"batch" doc:"Bounds of one transaction."`
}

// Kind is "sql".
func (*SQL) Kind() string { return "sql" }

// SQLBatch bounds one transaction.
type SQLBatch struct {
	MaxMessages int `yaml:"max_messages" default:"500" min:"1" max:"5000" doc:"Most messages."`
}

// Preset is the layout's preset; nil: the table is Outrider's own.
func (s *SQL) Preset() *layout.Preset { return layout.Find(s.Layout) }

func (s *SQL) check(c *form.Checker, at form.Location) {
	postgresURL(c, at.Child("url"), s.URL, ", and only tables in PostgreSQL are written to")
	postgresTLS(c, at, s.URL, &s.TLS)
	if !at.Sound("layout") {
		if shape := at.Child("layout"); shape.Text() == "custom" {
			c.Retract(shape)
			c.Add(shape, "tables that columns describe are read, not written to: nothing says which of their columns a new row needs").
				Fix("name a layout that has the table's shape")
		}
		return
	}
	preset := s.Preset()
	if preset != nil && preset.Log != nil && preset.Log.Numbered {
		c.Add(at.Child("layout"), "only %s appends to its events, by functions of its own", preset.Title).Fix("name another layout")
		return
	}
	if s.Layout != own && !at.Has("table") {
		s.Table = "" // the default is the own table's
	}
	if preset == nil || !severalTables(preset) {
		onlyIn(c, at, layoutsWith(severalTables), "tables")
	} else if at.Has("table") {
		c.Add(at.Child("table").Key(), "%s has %s tables", preset.Title, numberWord(len(preset.Queue.Tables))).Fix("name them in tables: {...}")
	}
	switch {
	case preset == nil || !hasTopic(preset):
		onlyIn(c, at, layoutsWith(hasTopic), "topic")
	case !at.Has("topic") && !at.Has("table"):
		c.Add(at.Child("topic"), "a %s table belongs to a topic", preset.Title).
			Fix("give topic: orders for the table %sorders, or table: NAME", preset.Log.TopicPrefix)
	}
}

// names are the tables that are written to.
func (s *SQL) names() []string { return tableNames(s.Preset(), s.Table, s.Tables, s.Topic) }

// tableNames are the tables of a layout, as a section names them.
func tableNames(preset *layout.Preset, table Table, tables Queues, topic string) (names []string) {
	switch {
	case table != "":
		return []string{string(table)}
	case preset == nil:
	case preset.Log != nil && topic != "":
		return []string{preset.Log.TopicPrefix + topic}
	case preset.Queue != nil:
		for _, t := range preset.Queue.Tables {
			names = append(names, tables.Of(t))
		}
	}
	return names
}

// checkCircle refuses a route that writes into the table or topic which it reads: each message would come again without end.
func (cfg *Config) checkCircle(c *form.Checker, at form.Location, r *Route, to string) {
	topic, fromTopic := cfg.Sources[r.From].(*KafkaSource)
	kafka, toTopic := cfg.Destinations[to].(*Kafka)
	if fromTopic && toTopic && topic != nil && kafka != nil {
		topic.checkCircle(c, at, r, kafka)
	}
	src, fromTable := cfg.Sources[r.From].(*Postgres)
	dst, toTable := cfg.Destinations[to].(*SQL)
	if !fromTable || !toTable || src == nil || dst == nil || databaseOf(src.URL) != databaseOf(dst.URL) {
		return
	}
	for _, name := range tableNames(src.Preset(), src.Table, src.Tables, src.Topic) {
		if slices.Contains(dst.names(), name) {
			c.Add(at, "%s writes the table %s, which the route reads: each message would come again without end", at.Quote(), name).
				Fix("name another table")
			return
		}
	}
}

// databaseOf is the database that a URL leads to.
func databaseOf(u SecretURL) string {
	parsed, err := url.Parse(u.Reveal())
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(parsed.Host, ":5432") + parsed.Path
}
