package layout

// Debezium is the table that Debezium's outbox event router reads, with its default names. Debezium reads the database's log, so the table
// needs neither positions nor rows that stay: `outrider init` adds the former.
func Debezium() *Preset {
	return &Preset{
		Name: "debezium", Title: "Debezium", Doc: "the table of Debezium's outbox event router", Page: "migrate/debezium.md",
		Log: &Log{
			Table: "outbox",
			Columns: LogColumns{
				Position: "outrider_position", XID: "outrider_xid", ID: "id", Payload: "payload", Type: "type", Group: "aggregateid",
				AggregateType: "aggregatetype", AggregateID: "aggregateid",
			},
			NullPayload: true, Captured: true,
		},
	}
}
