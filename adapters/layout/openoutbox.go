package layout

import "time"

// OpenOutbox is the table of the relay of Open Outbox (github.com/open-outbox/relay), with its defaults. A row is its
// while locked_by names it and locked_at is young; both are empty before and after.
func OpenOutbox() *Preset {
	return &Preset{
		Name: "open-outbox", Title: "Open Outbox", Doc: "the table of Open Outbox's relay", Page: "migrate/open-outbox.md",
		Queue: &Queue{
			Tables: []Table{{Name: "openoutbox_events"}},
			Columns: Columns{
				Key: "event_id", Type: "event_type", Group: "partition_key", Payload: "payload", Headers: "headers", Status: "status",
				Created: "created_at", Claimed: "locked_at", Owner: "locked_by", Updated: "updated_at", NextAttempt: "available_at",
				Attempts: "attempts", Done: "delivered_at", Error: "last_error",
			},
			Statuses:  Statuses{Pending: "PENDING", Processing: "DELIVERING", Done: "DELIVERED", Dead: "DEAD"},
			ClaimEnds: true,
			JSONBytes: true,
			Headers:   []Header{{Name: "X-Event-ID", Column: "event_id"}},

			Definitions: map[Database]Definition{PostgreSQL: {
				Columns: []Column{
					{"event_id", "uuid PRIMARY KEY"},
					{"event_type", "text NOT NULL"},
					{"partition_key", "text"},
					{"payload", "bytea NOT NULL"},
					{"headers", "jsonb NOT NULL DEFAULT '{}'"},
					{"status", "text NOT NULL DEFAULT 'PENDING' CONSTRAINT check_valid_status CHECK (status IN ('PENDING', 'DELIVERING', 'DELIVERED', 'DEAD'))"},
					{"attempts", "int NOT NULL DEFAULT 0"},
					{"last_error", "text"},
					{"available_at", "timestamptz NOT NULL DEFAULT now()"},
					{"locked_by", "text"},
					{"locked_at", "timestamptz"},
					{"delivered_at", "timestamptz"},
					{"created_at", "timestamptz NOT NULL DEFAULT now()"},
					{"updated_at", "timestamptz NOT NULL DEFAULT now()"},
				},
				Indexes: []Index{
					{Name: "idx_openoutbox_processing_queue", On: "(available_at, created_at) WHERE status = 'PENDING'"},
					{Name: "idx_openoutbox_stuck_leases", On: "(locked_at) WHERE status = 'DELIVERING'"},
					{Name: "idx_openoutbox_metrics_count", On: "(status) INCLUDE (attempts) WHERE status = 'PENDING'"},
					{Name: "idx_openoutbox_metrics_lag", On: "(status, created_at) WHERE status = 'PENDING'"},
				},
			}, SQLite: {
				Columns: []Column{
					{"event_id", "text PRIMARY KEY NOT NULL"},
					{"event_type", "text NOT NULL"},
					{"partition_key", "text"},
					{"payload", "blob NOT NULL"},
					{"headers", "text NOT NULL DEFAULT '{}'"},
					{"status", "text NOT NULL DEFAULT 'PENDING' CONSTRAINT check_valid_status CHECK (status IN ('PENDING', 'DELIVERING', 'DELIVERED', 'DEAD'))"},
					{"attempts", "integer NOT NULL DEFAULT 0"},
					{"last_error", "text"},
					{"available_at", "text NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))"},
					{"locked_by", "text"},
					{"locked_at", "text"},
					{"delivered_at", "text"},
					{"created_at", "text NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))"},
					{"updated_at", "text NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))"},
				},
			}},
		},
		Defaults: Defaults{
			Poll: 500 * time.Millisecond, Batch: 100, Timeout: 3 * time.Minute, Recover: 3 * time.Minute,
			Retry: &Retry{Attempts: 25, Base: time.Second, Max: 24 * time.Hour, Jitter: 0.15},
		},
	}
}
