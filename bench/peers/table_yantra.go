package peers

import (
	"context"
	"fmt"

	"github.com/outriderhq/outrider/bench/measure"

	"github.com/jackc/pgx/v5"
)

// yantraTable is Yantra's outbox table, whose rows become jobs of River. The rows have a status, so every run writes the
// backlog again.
type yantraTable struct{}

func (t yantraTable) fill(ctx context.Context, db *pgx.Conn) error {
	if err := measure.KeepEvents(ctx, db); err != nil {
		return err
	}
	return measure.FillFromEvents(ctx, db, t.pending())
}

// pending is an INSERT ... SELECT of rows as Yantra writes them, each a little younger than the one before it.
func (yantraTable) pending() string {
	return `INSERT INTO outbox_messages (id, aggregate_id, aggregate_type, event_type, payload, status, created_at)
		SELECT lpad(position::text, 32, '0')::uuid, message_group, 'workflow', 'bench', payload,
			'pending', localtimestamp - interval '1 hour' + position * interval '10 microseconds'`
}

func (t yantraTable) Rewind(ctx context.Context, db *pgx.Conn) error {
	if _, err := db.Exec(ctx, "TRUNCATE outbox_messages; "+t.pending()+" FROM "+measure.ItemBacklog+" ORDER BY position"); err != nil {
		return err
	}
	_, err := db.Exec(ctx, "VACUUM (ANALYZE) outbox_messages")
	return err
}

func (yantraTable) Backlog() string {
	return "SELECT aggregate_id, payload::text FROM outbox_messages ORDER BY created_at, id"
}

// Verify expects in every row the values that Yantra writes with its job.
func (yantraTable) Verify(ctx context.Context, db *pgx.Conn) error {
	var wrong int
	err := db.QueryRow(ctx, "SELECT count(*) FROM outbox_messages WHERE NOT (status = 'processed' AND processed_at IS NOT NULL)").Scan(&wrong)
	if err == nil && wrong > 0 {
		err = fmt.Errorf("%d rows of outbox_messages are not marked as processed", wrong)
	}
	return err
}

// resetJobs leaves River's table empty.
func resetJobs(ctx context.Context, db *pgx.Conn) error {
	_, err := db.Exec(ctx, "TRUNCATE river_job RESTART IDENTITY")
	return err
}
