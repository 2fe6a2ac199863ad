package layout

// CrabletV2 is the event table of Crablet's newer versions. Its column tags has all tags of an event, and its table crablet_event_tags the same once
// more, one a row, for Crablet's own queries: that one is not read. Other than that the tables differ from those of [Crablet] in their names,
// types, and two columns that say which event of which request led to an event.
func CrabletV2() *Preset {
	p := Crablet()
	p.Name, p.Title, p.Doc = "crablet-v2", "Crablet, newer tables", "the newer event table of Crablet's event store, with the progress of its outbox"
	p.Log.Table, p.Log.Progress = "crablet_events", "crablet_outbox_topic_progress"
	p.Log.Headers = []Header{{Name: "correlation-id", Column: "correlation_id"}, {Name: "causation-id", Column: "causation_id"}}
	return p
}
