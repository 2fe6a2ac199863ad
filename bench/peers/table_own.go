package peers

import (
	"context"

	"github.com/outriderhq/outrider/bench/measure"

	"github.com/jackc/pgx/v5"
)

// ownTable is Outrider's own layout.
type ownTable struct{}

// forgetState empties the state store.
const forgetState = "TRUNCATE outrider_cursor, outrider_settled, outrider_parked, outrider_instance, outrider_audit"

func (ownTable) fill(ctx context.Context, db *pgx.Conn) error {
	// occurred_at, because outbox.Client always writes it.
	return measure.FillFromEvents(ctx, db, `
		INSERT INTO outrider_outbox (id, type, message_group, payload, occurred_at)
		SELECT id, 'order.created', message_group, payload, now()`)
}

func (ownTable) Rewind(ctx context.Context, db *pgx.Conn) error {
	_, err := db.Exec(ctx, forgetState)
	return err
}

func (ownTable) Empty() string { return "TRUNCATE outrider_outbox; " + forgetState }

func (ownTable) Backlog() string {
	return "SELECT message_group, payload::text FROM outrider_outbox ORDER BY position"
}

func (ownTable) Insert() string {
	return "INSERT INTO outrider_outbox (id, type, message_group, payload, occurred_at) VALUES ($1, 'order.created', $2, $3, now())"
}

// Verify does nothing: the table has no statuses.
func (ownTable) Verify(context.Context, *pgx.Conn) error { return nil }
