package layout

import "time"

// OutboxFramework is the table of the JDBC outbox framework, whose hot path, poller and listeners are described in
// docs/migrate/outbox-framework.md. A row has no status while it is being processed. Its definition of the table is MySQL's, its
// dispatcher keeps no order: ours is that of each aggregate.
func OutboxFramework() *Preset {
	return &Preset{
		Name: "outbox-framework", Title: "the outbox framework", Doc: "the table of the JDBC outbox framework", Page: "migrate/outbox-framework.md",
		Hot: true,
		Queue: &Queue{
			Tables: []Table{{Name: "outbox_event"}},
			Columns: Columns{
				Key: "event_id", Type: "event_type", Group: "aggregate_id", Payload: "payload", Headers: "headers", Status: "status",
				AggregateType: "aggregate_type", AggregateID: "aggregate_id", Tenant: "tenant_id",
				Created: "created_at", NextAttempt: "available_at", Attempts: "attempts", Done: "done_at", Error: "last_error",
			},
			Statuses:    Statuses{Pending: "0", Retrying: "2", Done: "1", Dead: "3"}, // NEW, RETRY, DONE, DEAD
			GroupByType: true, DeadKeepsRetries: true, CreatedIsOccurred: true,

			Definitions: frameworkTables(),
		},
		Defaults: Defaults{
			Poll: 5 * time.Second, Batch: 200,
			Retry: &Retry{Attempts: 10, Base: 200 * time.Millisecond, Max: time.Minute, Jitter: 0.5},
		},
	}
}

// frameworkTables are the framework's table and index in each database.
func frameworkTables() map[Database]Definition {
	return map[Database]Definition{PostgreSQL: {
		Columns: []Column{
			{"event_id", "varchar(36) PRIMARY KEY"},
			{"event_type", "varchar(128) NOT NULL"},
			{"aggregate_type", "varchar(64)"},
			{"aggregate_id", "varchar(128)"},
			{"tenant_id", "varchar(64)"},
			{"payload", "json NOT NULL"},
			{"headers", "json"},
			{"status", "smallint NOT NULL"},
			{"attempts", "int NOT NULL DEFAULT 0"},
			{"available_at", "timestamptz NOT NULL"},
			{"created_at", "timestamptz NOT NULL"},
			{"done_at", "timestamptz"},
			{"last_error", "text"},
		},
		Indexes: []Index{{Name: "idx_status_available", On: "(status, available_at, created_at)"}},
	}, SQLite: {
		Columns: []Column{
			{"event_id", "text PRIMARY KEY NOT NULL"},
			{"event_type", "text NOT NULL"},
			{"aggregate_type", "text"},
			{"aggregate_id", "text"},
			{"tenant_id", "text"},
			{"payload", "text NOT NULL"},
			{"headers", "text"},
			{"status", "integer NOT NULL"},
			{"attempts", "integer NOT NULL DEFAULT 0"},
			{"available_at", "text NOT NULL"},
			{"created_at", "text NOT NULL"},
			{"done_at", "text"},
			{"last_error", "text"},
		},
		Indexes: []Index{{Name: "idx_status_available", On: "(status, available_at, created_at)"}},
	}, MySQL: {
		Columns: []Column{
			{"event_id", "VARCHAR(36) PRIMARY KEY"},
			{"event_type", "VARCHAR(128) NOT NULL"},
			{"aggregate_type", "VARCHAR(64)"},
			{"aggregate_id", "VARCHAR(128)"},
			{"tenant_id", "VARCHAR(64)"},
			{"payload", "JSON NOT NULL"},
			{"headers", "JSON"},
			{"status", "TINYINT NOT NULL"},
			{"attempts", "INT NOT NULL DEFAULT 0"},
			{"available_at", "DATETIME(6) NOT NULL"},
			{"created_at", "DATETIME(6) NOT NULL"},
			{"done_at", "DATETIME(6)"},
			{"last_error", "TEXT"},
		},
		Indexes: []Index{{Name: "idx_status_available", On: "(status, available_at, created_at)"}},
	}}
}
