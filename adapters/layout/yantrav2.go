package layout

import "time"

// YantraV2 is the table of the outbox worker of Yantra's current programs: every five seconds the ten oldest rows that are pending
// and due, each with a status of its own while it is being processed. Rows of one node execution are in order. Those that are cancelled
// stay as they are. Yantra counts an attempt as it begins, Outrider as it fails. Where GORM has made the table, status and created_at may
// be NULL, which doctor says with the statement that changes it.
func YantraV2() *Preset {
	return &Preset{
		Name: "yantra-v2", Title: "Yantra, newer table", Doc: "the table of Yantra's outbox worker, with attempts and dead letters", Page: "migrate/yantra.md",
		Queue: &Queue{
			Tables: []Table{{Name: "outbox_messages"}},
			Columns: Columns{
				Key: "id", Type: "event_type", Group: "node_execution_id", Payload: "payload", Status: "status", Created: "created_at", Claimed: "last_attempt_at",
				NextAttempt: "next_retry_at", Attempts: "attempts", Done: "processed_at", Error: "last_error",
			},
			Statuses: Statuses{Pending: "pending", Processing: "processing", Done: "completed", Dead: "dead_letter"},
			Headers:  []Header{{Name: "idempotency-key", Column: "idempotency_key"}},
			EventID:  "idempotency_key",

			Definitions: map[Database]Definition{PostgreSQL: {
				Columns: []Column{
					{"id", "uuid PRIMARY KEY DEFAULT gen_random_uuid()"},
					{"node_execution_id", "uuid NOT NULL"},
					{"event_type", "text NOT NULL"},
					{"payload", "text NOT NULL"},
					{"status", "text NOT NULL DEFAULT 'pending'"},
					{"idempotency_key", "text NOT NULL"},
					{"attempts", "bigint NOT NULL DEFAULT 0"},
					{"max_attempts", "bigint DEFAULT 3"},
					{"last_error", "text"},
					{"last_attempt_at", "timestamptz"},
					{"next_retry_at", "timestamptz"},
					{"created_at", "timestamptz NOT NULL DEFAULT now()"},
					{"processed_at", "timestamptz"},
				},
				Indexes: []Index{
					{Name: "idx_{table}_idempotency_key", Unique: true, On: "(idempotency_key)"},
					{Name: "idx_outbox_status_retry", On: "(next_retry_at)"},
				},
			}},
		},
		Defaults: Defaults{
			Poll: 5 * time.Second, Batch: 10,
			Retry: &Retry{Attempts: 4, Base: 2 * time.Minute, Max: time.Hour},
		},
	}
}
