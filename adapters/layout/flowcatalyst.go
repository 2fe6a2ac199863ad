package layout

import "time"

// FlowCatalyst is the table of FlowCatalyst's outbox processor, and the settings that its users rely on
// without writing them down.
func FlowCatalyst() *Preset {
	return &Preset{
		Name: "flowcatalyst", Title: "FlowCatalyst", Doc: "the two tables of FlowCatalyst's outbox processor", Page: "flowcatalyst.md",
		Queue: &Queue{
			Tables: []Table{{Key: "events", Name: "outbox_events", Kind: "EVENT"}, {Key: "dispatch_jobs", Name: "outbox_dispatch_jobs", Kind: "DISPATCH_JOB"}},
			Columns: Columns{
				Key: "id", Type: "type", Group: "message_group", Payload: "payload", Status: "status",
				Attempts: "retry_count", Created: "created_at", Claimed: "processed_at", Done: "processed_at", Error: "error_message",
			},
			Fields: &Columns{
				Key: "_id", Type: "type", Group: "messageGroup", Payload: "payload", Status: "status",
				Attempts: "retryCount", Created: "createdAt", Claimed: "processedAt", Done: "processedAt", Error: "errorMessage",
			},
			Statuses: Statuses{Pending: "PENDING", Processing: "PROCESSING", Done: "COMPLETED", Dead: "FAILED"},

			DefaultGroup: "default", TypeInPayload: true, DeadKeepsRetries: true, ErrorWhenDead: true,

			Definitions: map[Database]Definition{PostgreSQL: {
				Columns: []Column{
					{"id", "VARCHAR(13) PRIMARY KEY"},
					{"type", "VARCHAR(20) NOT NULL"},
					{"message_group", "VARCHAR(255)"},
					{"payload", "TEXT NOT NULL"},
					{"status", "VARCHAR(20) NOT NULL"},
					{"retry_count", "INT NOT NULL DEFAULT 0"},
					{"created_at", "TIMESTAMP NOT NULL"},
					{"processed_at", "TIMESTAMP"},
					{"error_message", "TEXT"},
				},
				Indexes:   []Index{{Name: "idx_{table}_status", On: "(status, message_group, created_at)"}},
				FindsHeld: true,
			}, SQLite: {
				Columns: []Column{
					{"id", "text PRIMARY KEY NOT NULL"},
					{"type", "text NOT NULL"},
					{"message_group", "text"},
					{"payload", "text NOT NULL"},
					{"status", "text NOT NULL"},
					{"retry_count", "integer NOT NULL DEFAULT 0"},
					{"created_at", "text NOT NULL"},
					{"processed_at", "text"},
					{"error_message", "text"},
				},
			}, MySQL: {
				Columns: []Column{
					{"id", "VARCHAR(13) PRIMARY KEY"},
					{"type", "VARCHAR(20) NOT NULL"},
					{"message_group", "VARCHAR(255)"},
					{"payload", "LONGTEXT NOT NULL"}, // FlowCatalyst's TEXT holds 64 KiB
					{"status", "VARCHAR(20) NOT NULL"},
					{"retry_count", "INT NOT NULL DEFAULT 0"},
					{"created_at", "TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6)"}, // a default has no server update it by itself
					{"processed_at", "TIMESTAMP(6) NULL"},
					{"error_message", "TEXT"},
				},
				Indexes: []Index{{Name: "idx_{table}_status", On: "(status, message_group, created_at)"}},
			}, MongoDB: {Indexes: []Index{{On: "(status, messageGroup, createdAt)"}}}},
		},
		Defaults: Defaults{
			Poll: time.Second, Retry: &Retry{Attempts: 4, Base: time.Second, NextPoll: true}, // the first, and max-retries more
			Leader:   true, // only the primary polls
			Together: true, // one semaphore for both types
		},
	}
}
