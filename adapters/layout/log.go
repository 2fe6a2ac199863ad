package layout

// Log is the layout of an append-only table.
type Log struct {
	// Table is the usual name of the table. Empty: it has none.
	Table string

	Columns LogColumns

	// Headers are further columns, each with the name of the header as which it travels where it is not NULL. They take the place of a column
	// with headers.
	Headers []Header

	// TopicPrefix begins the name of a table that belongs to a topic, which is the type of
	// rows that name none. Empty: the table has no topic.
	TopicPrefix string

	// PositionKey: the position is the primary key, so no index is wanted for it alone.
	PositionKey bool

	// Numbered: rows have no event id of their own. It is the table's name without its schema, a colon and the position, and
	// the application appends rows by functions of its own.
	Numbered bool

	// Progress is the usual name of the table, in the same database, in which the source system keeps how far each of its
	// publishers is. Empty: there is none.
	Progress string

	// NullPayload: NULL is an empty payload. Otherwise such a row is dead.
	NullPayload bool

	// Captured: the source system reads the database's log instead of the table. So
	//   - the table has no position and no transaction: `outrider init` adds both columns, and rows from before are not read;
	//   - the application may delete rows at once, which `outrider doctor` reports;
	//   - columns can have other names, and further columns travel as headers, with the values that Kafka Connect writes;
	//   - NULL is no payload, in contrast to an empty one.
	Captured bool
}

// LogColumns says in which column of an append-only table what is found. A value is the name of
// a column, exactly as the catalogue has it. Those marked so can be "=text"
// instead: that text for every row. Empty: the table has none.
type LogColumns struct {
	Position string // required: unique, ascending; smallint, integer or bigint
	XID      string // required: transaction that wrote the row; xid8, or bigint that holds one

	ID      string // required: event id; any type
	Payload string // required: json, jsonb, text or bytea

	Type          string // event type; any type, or =text
	Group         string // ordering key; any type
	AggregateType string // any type, or =text
	AggregateID   string // any type
	Tenant        string // any type, or =text

	Headers    string // a JSON object: json, jsonb or text
	Tags       string // a JSON object: json, jsonb or text; or KEY=VALUE each: text[]
	OccurredAt string // timestamptz or timestamp
	CreatedAt  string // timestamptz or timestamp; needed to start a route at a time
}
