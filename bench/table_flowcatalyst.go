package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// itemTable is FlowCatalyst's table of events. Its rows carry a status, so the
// backlog is written again for every run.
type itemTable struct{}

func (t itemTable) fill(ctx context.Context, db *pgx.Conn) error {
	if err := keepEvents(ctx, db); err != nil {
		return err
	}
	return fillFromEvents(ctx, db, t.pending())
}

// pending is an INSERT ... SELECT of rows as FlowCatalyst's client writes them,
// each a little younger than the one before it.
func (itemTable) pending() string {
	return `INSERT INTO outbox_events (id, type, message_group, payload, status, created_at)
		SELECT lpad(position::text, 13, '0'), 'EVENT', message_group, payload,
			'PENDING', localtimestamp - interval '1 hour' + position * interval '10 microseconds'`
}

// rewind leaves the table as it is after the first writing: new pages, vacuumed
// and analysed.
func (t itemTable) rewind(ctx context.Context, db *pgx.Conn) error {
	_, err := db.Exec(ctx, "TRUNCATE outbox_events; "+t.pending()+" FROM "+itemBacklog+" ORDER BY position")
	if err != nil {
		return err
	}
	_, err = db.Exec(ctx, "VACUUM (ANALYZE) outbox_events")
	return err
}

func (itemTable) backlog() string {
	return "SELECT message_group, payload FROM outbox_events ORDER BY created_at, id"
}

func (itemTable) insert() string {
	return `INSERT INTO outbox_events (id, type, message_group, payload, status, created_at)
		VALUES ($1, 'EVENT', $2, $3, 'PENDING', localtimestamp)`
}

// verify wants of every row what the original writes about an item that was
// delivered at the first attempt.
func (itemTable) verify(ctx context.Context, db *pgx.Conn) error {
	var wrong int
	err := db.QueryRow(ctx, `SELECT count(*) FROM outbox_events WHERE NOT (status = 'COMPLETED'
		AND processed_at IS NOT NULL AND retry_count = 0 AND error_message IS NULL)`).Scan(&wrong)
	if err == nil && wrong > 0 {
		err = fmt.Errorf("%d rows of outbox_events are not marked as delivered at the first attempt", wrong)
	}
	return err
}

// queueTable is the same for Outrider, which keeps its lanes beside it.
type queueTable struct{ itemTable }

func (queueTable) empty() string { return "TRUNCATE outbox_events; " + forgetState }

func (t queueTable) rewind(ctx context.Context, db *pgx.Conn) error {
	if _, err := db.Exec(ctx, forgetState); err != nil {
		return err
	}
	return t.itemTable.rewind(ctx, db)
}
