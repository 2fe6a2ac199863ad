package config

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
	if !s.Queued() {
		s.Claims, s.Delivered = Claims{}, ""
	}
}

// checkLayout looks at what describes a table that is not of the own layout.
func (s *SQLite) checkLayout(c *checker, at place) {
	if s.Layout != own && !at.has("table") {
		s.Table = "" // the default is the own table's
	}
	if s.Layout == own {
		c.onlyIn(at, "layout: custom", "columns")
		return
	}
	if s.Queued() {
		if s.Layout == custom && !at.has("table") {
			c.add(at.child("table"), "a custom layout needs the name of its table").hint("add table: NAME")
		}
		return
	}
	if !at.has("table") {
		c.add(at.child("table"), "a custom layout needs the name of its table").hint("add table: NAME")
	}
	if at.has("retention") {
		c.add(at.child("retention").key(), "rows of a table of your own are not removed").hint("remove the key, and delete rows yourself")
	}
	c.columns(at, "position: ..., id: ..., payload: ..., type: ...", map[string]string{
		"position": "add position: NAME of the INTEGER PRIMARY KEY AUTOINCREMENT",
		"id":       "add id: NAME of the column that identifies an event",
		"payload":  "add payload: NAME of the column with the content",
		"type":     `add type: NAME, or type: "=order.changed" for a fixed one`,
	})
}
