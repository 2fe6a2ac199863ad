package layout

import "time"

// CrabletLock is the key of the session advisory lock that the leader of Crablet's outbox holds.
const CrabletLock = 4856221667890123456

// Crablet is the event table of Crablet's event store, as its outbox reads it (github.com/rodolfodpk/spring-crablet), and the table of
// progress that its dashboards and operators use.
func Crablet() *Preset {
	return &Preset{
		Name: "crablet", Title: "Crablet", Doc: "the event table of Crablet's event store, with the progress of its outbox", Page: "crablet.md",
		Log: &Log{
			Table: "events",
			Columns: LogColumns{
				Position: "position", XID: "transaction_id", ID: "position", Payload: "data", Type: "type", Tags: "tags",
				OccurredAt: "occurred_at", CreatedAt: "occurred_at",
			},
			PositionKey: true, Numbered: true, Progress: "outbox_topic_progress",
		},
		Defaults: Defaults{
			Leader: true, Lock: CrabletLock, Global: true, Statistics: 30 * time.Second,
			Retry: &Retry{Attempts: 3, Base: time.Second, Max: time.Second, Hold: true},
		},
	}
}
