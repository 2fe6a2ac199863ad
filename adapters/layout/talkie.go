package layout

import "time"

// Talkie is the table of Talkie's OutboxPublisherService. It looks for rows that are due once a second, tries
// each five times, thirty seconds longer each time, and never takes a row back that a crash left in publishing: ours
// does. Rows that are canceled have a status of their own and stay as they are.
func Talkie() *Preset {
	return &Preset{
		Name: "talkie", Title: "Talkie", Doc: "the table of Talkie's outbox module", Page: "migrate/talkie.md",
		Queue: &Queue{
			Tables: []Table{{Name: "outbox"}},
			Columns: Columns{
				Key: "id", Type: "topic", Group: "key", Payload: "payload_json", Status: "status", Created: "created_at",
				Claimed: "last_attempt_at", NextAttempt: "next_attempt_at", Attempts: "retry_count", Done: "published_at", Error: "last_error",
			},
			Statuses: Statuses{Pending: "pending", Retrying: "failed", Processing: "publishing", Done: "published", Dead: "dead_lettered"},
			Headers:  []Header{{Name: "x-correlation-id", Column: "job_id"}},
			EventID:  "idempotency_key",

			Definitions: talkieDefinitions(),
		},
		Defaults: Defaults{
			Poll: time.Second, Batch: 50,
			Retry: &Retry{Attempts: 5, Base: 30 * time.Second, Max: 150 * time.Second, Linear: true},
		},
	}
}

// talkieDefinitions are Talkie's statements, and for databases that it does not support, the same table.
func talkieDefinitions() map[Database]Definition {
	return map[Database]Definition{PostgreSQL: {
		Columns: []Column{
			{"id", "bigserial PRIMARY KEY"},
			{"job_id", "uuid"},
			{"topic", "text NOT NULL"},
			{"key", "text"},
			{"payload_json", "jsonb NOT NULL"},
			{"idempotency_key", "text"},
			{"status", "text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'publishing', 'published', 'failed', 'dead_lettered', 'canceled'))"},
			{"retry_count", "int NOT NULL DEFAULT 0 CHECK (retry_count BETWEEN 0 AND 100)"},
			{"next_attempt_at", "timestamptz NOT NULL DEFAULT now()"},
			{"last_attempt_at", "timestamptz"},
			{"created_at", "timestamptz NOT NULL DEFAULT now()"},
			{"published_at", "timestamptz"},
			{"last_error", "text"},
		},
		Indexes: []Index{
			{Name: "ux_{table}_topic_idempotency", Unique: true, On: "(topic, idempotency_key) WHERE idempotency_key IS NOT NULL"},
			{Name: "idx_{table}_sched", On: "(status, next_attempt_at, created_at) WHERE status = 'pending'"},
			{Name: "idx_{table}_failed", On: "(status, retry_count) WHERE status IN ('failed', 'dead_lettered')"},
			{Name: "idx_{table}_topic_created", On: "(topic, created_at DESC)"},
			{Name: "idx_{table}_job_created", On: "(job_id, created_at DESC)"},
		},
	}, SQLite: {
		Columns: []Column{
			{"id", "integer PRIMARY KEY AUTOINCREMENT"},
			{"job_id", "text"},
			{"topic", "text NOT NULL"},
			{"key", "text"},
			{"payload_json", "text NOT NULL"},
			{"idempotency_key", "text"},
			{"status", "text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'publishing', 'published', 'failed', 'dead_lettered', 'canceled'))"},
			{"retry_count", "integer NOT NULL DEFAULT 0 CHECK (retry_count BETWEEN 0 AND 100)"},
			{"next_attempt_at", "text NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))"},
			{"last_attempt_at", "text"},
			{"created_at", "text NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))"},
			{"published_at", "text"},
			{"last_error", "text"},
		},
		Indexes: []Index{{Name: "ux_{table}_topic_idempotency", Unique: true, On: "(topic, idempotency_key) WHERE idempotency_key IS NOT NULL"}},
	}, MySQL: {
		Columns: []Column{
			{"id", "BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY"},
			{"job_id", "CHAR(36)"},
			{"topic", "VARCHAR(255) NOT NULL"},
			{"key", "VARCHAR(255)"},
			{"payload_json", "LONGTEXT NOT NULL"},
			{"idempotency_key", "VARCHAR(255)"},
			{"status", "VARCHAR(20) NOT NULL DEFAULT 'pending'"},
			{"retry_count", "INT NOT NULL DEFAULT 0"},
			{"next_attempt_at", "TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6)"},
			{"last_attempt_at", "TIMESTAMP(6) NULL"},
			{"created_at", "TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6)"},
			{"published_at", "TIMESTAMP(6) NULL"},
			{"last_error", "TEXT"},
		},
		Indexes: []Index{
			{Name: "ux_{table}_topic_idempotency", Unique: true, On: "(topic, idempotency_key)"}, // of rows without a key any number
			{Name: "idx_{table}_sched", On: "(status, next_attempt_at, created_at)"},
		},
	}}
}
