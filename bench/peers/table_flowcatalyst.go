package peers

import (
	"context"
	"fmt"

	"github.com/outriderhq/outrider/bench/measure"

	"github.com/jackc/pgx/v5"
)

// itemTable is FlowCatalyst's table of events. Its rows carry a status, so the
// backlog is written again for every run.
type itemTable struct{}

func (t itemTable) fill(ctx context.Context, db *pgx.Conn) error {
	if err := measure.KeepEvents(ctx, db); err != nil {
		return err
	}
	return measure.FillFromEvents(ctx, db, t.pending())
}

// pending is an INSERT ... SELECT of rows as FlowCatalyst's client writes them,
// each a little younger than the one before it.
func (itemTable) pending() string {
	return `INSERT INTO outbox_events (id, type, message_group, payload, status, created_at)
		SELECT lpad(position::text, 13, '0'), 'EVENT', message_group, payload,
			'PENDING', localtimestamp - interval '1 hour' + position * interval '10 microseconds'`
}

// Rewind rewrites the table, so that each run has new pages, vacuumed and analysed.
func (t itemTable) Rewind(ctx context.Context, db *pgx.Conn) error {
	_, err := db.Exec(ctx, "TRUNCATE outbox_events; "+t.pending()+" FROM "+measure.ItemBacklog+" ORDER BY position")
	if err != nil {
		return err
	}
	_, err = db.Exec(ctx, "VACUUM (ANALYZE) outbox_events")
	return err
}

func (itemTable) Backlog() string {
	return "SELECT message_group, payload FROM outbox_events ORDER BY created_at, id"
}

func (itemTable) Insert() string {
	return `INSERT INTO outbox_events (id, type, message_group, payload, status, created_at)
		VALUES ($1, 'EVENT', $2, $3, 'PENDING', localtimestamp)`
}

// Verify expects in every row the values that FlowCatalyst writes after a delivery
// at the first attempt.
func (itemTable) Verify(ctx context.Context, db *pgx.Conn) error {
	var wrong int
	err := db.QueryRow(ctx, `SELECT count(*) FROM outbox_events WHERE NOT (status = 'COMPLETED'
		AND processed_at IS NOT NULL AND retry_count = 0 AND error_message IS NULL)`).Scan(&wrong)
	if err == nil && wrong > 0 {
		err = fmt.Errorf("%d rows of outbox_events are not marked as delivered at the first attempt", wrong)
	}
	return err
}

// queueTable is the same table with the state of Outrider.
type queueTable struct{ itemTable }

func (queueTable) Empty() string { return "TRUNCATE outbox_events; " + forgetState }

func (t queueTable) Rewind(ctx context.Context, db *pgx.Conn) error {
	if _, err := db.Exec(ctx, forgetState); err != nil {
		return err
	}
	return t.itemTable.Rewind(ctx, db)
}
