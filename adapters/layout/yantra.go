package layout

import "time"

// Yantra is the table of the outbox processor of Yantra, a workflow engine: once a second the hundred oldest rows that are pending,
// for each a job of River. A row has no status while it is being processed, and no columns for attempts, the next attempt
// and errors: those are notes beside the table (docs/design.md, "Notes beside tables"). Yantra says "exponential backoff" and no
// figures; these are ours.
func Yantra() *Preset {
	return &Preset{
		Name: "yantra", Title: "Yantra", Doc: "the table of Yantra's outbox processor", Page: "migrate/yantra.md",
		Queue: &Queue{
			Tables: []Table{{Name: "outbox_messages"}},
			Columns: Columns{
				Key: "id", Type: "event_type", Group: "aggregate_id", Payload: "payload", Status: "status", Created: "created_at",
				AggregateType: "aggregate_type", AggregateID: "aggregate_id", Done: "processed_at",
			},
			Statuses: Statuses{Pending: "pending", Done: "processed", Dead: "failed"},

			Definitions: map[Database]Definition{PostgreSQL: {
				Columns: []Column{
					{"id", "uuid PRIMARY KEY"},
					{"aggregate_id", "varchar(255) NOT NULL"},
					{"aggregate_type", "varchar(50) NOT NULL"},
					{"event_type", "varchar(50) NOT NULL"},
					{"payload", "jsonb NOT NULL"},
					{"status", "varchar(20) NOT NULL"},
					{"created_at", "timestamp NOT NULL"},
					{"processed_at", "timestamp"},
				},
				Indexes: []Index{
					{Name: "idx_outbox_status_created", On: "(status, created_at) WHERE status = 'pending'"},
					{Name: "idx_outbox_aggregate", On: "(aggregate_id, aggregate_type)"},
				},
			}},
		},
		Defaults: Defaults{
			Poll: time.Second, Batch: 100,
			Retry: &Retry{Attempts: 1_000_000, Base: time.Second, Max: 5 * time.Minute, Jitter: 0.2}, // it never gives a row up for a temporary failure
		},
	}
}
