package layout

import "time"

// FlowCatalystV2 is the layout of FlowCatalyst's programs of 2026: one table for rows of three types, with numbers for
// statuses. Delivered rows are deleted, and a failure has its own status by the platform's answer. The time of the
// last change is that of the claim, too.
func FlowCatalystV2() *Preset {
	return &Preset{
		Name: "flowcatalyst-v2", Title: "FlowCatalyst (outbox_messages)", Doc: "the table outbox_messages of FlowCatalyst's current SDKs", Page: "flowcatalyst-v2.md",
		Queue: &Queue{
			Tables: []Table{{Name: "outbox_messages"}},
			Columns: Columns{
				Key: "id", Type: "type", Group: "message_group", Payload: "payload", Status: "status", Attempts: "retry_count",
				Created: "created_at", Claimed: "updated_at", Updated: "updated_at", Error: "error_message",
			},
			Statuses: Statuses{Pending: "0", Processing: "9", Done: "1", Dead: "3"},
			DeadBy: map[string]string{
				"permanent": "2", "BAD_REQUEST": "2", "INTERNAL_ERROR": "3", "UNAUTHORIZED": "4", "FORBIDDEN": "5", "GATEWAY_ERROR": "6",
			},
			KindInType: true, DefaultKind: "EVENT", TypeInPayload: true, DoneIsDeleted: true,

			Definitions: map[Database]Definition{PostgreSQL: {
				Columns: []Column{
					{"id", "VARCHAR(26) PRIMARY KEY"},
					{"type", "VARCHAR(20) NOT NULL"},
					{"message_group", "VARCHAR(255)"},
					{"payload", "TEXT NOT NULL"},
					{"status", "SMALLINT NOT NULL DEFAULT 0"},
					{"retry_count", "SMALLINT NOT NULL DEFAULT 0"},
					{"created_at", "TIMESTAMPTZ NOT NULL DEFAULT NOW()"},
					{"updated_at", "TIMESTAMPTZ NOT NULL DEFAULT NOW()"},
					{"error_message", "TEXT"},
					{"client_id", "VARCHAR(26)"},
					{"payload_size", "INTEGER"},
					{"headers", "JSONB"},
				},
				Indexes: []Index{
					{Name: "idx_{table}_pending", On: "(status, message_group, created_at) WHERE status = 0"},
					{Name: "idx_{table}_stuck", On: "(status, created_at) WHERE status = 9"},
					{Name: "idx_outbox_client_pending", On: "(client_id, status, created_at)"},
				},
			}},
		},
		Defaults: Defaults{
			Poll: time.Second, Batch: 100, Retry: &Retry{Attempts: 3, Base: time.Second, NextPoll: true},
			Leader: true, Together: true,
		},
	}
}
