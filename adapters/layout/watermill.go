package layout

// Watermill is the table that watermill-sql's DefaultPostgreSQLSchema creates for a topic.
func Watermill() *Preset {
	return &Preset{
		Name: "watermill", Title: "Watermill", Doc: "a topic of watermill-sql's DefaultPostgreSQLSchema", Page: "tables.md",
		Log: &Log{
			Columns: LogColumns{
				Position: "offset", XID: "transaction_id", ID: "uuid", Payload: "payload", Headers: "metadata", CreatedAt: "created_at",
			},
			TopicPrefix: "watermill_", PositionKey: true,
			NullPayload: true, // its publisher writes NULL for a payload of nil, and its subscriber delivers an empty one
		},
	}
}
