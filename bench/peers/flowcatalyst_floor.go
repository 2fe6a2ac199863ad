package peers

import (
	"context"
	"errors"
	"fmt"

	"github.com/outriderhq/outrider/bench/measure"

	"github.com/jackc/pgx/v5"
)

// itemFloor is the minimal work that brings FlowCatalyst's items to its API with the
// same statuses in the table: FlowCatalyst's claim, requests with as many items of
// one group, and one UPDATE for all items answered meanwhile. It keeps no order and
// neither retries nor returns failed items.
type itemFloor struct{ itemTable }

// ItemFloor is the floor of the scenario flowcatalyst.
var ItemFloor = itemFloor{}

func (itemFloor) Name() string { return "floor" }

func (itemFloor) About() string {
	return fmt.Sprintf("the claim of FlowCatalyst's document (UPDATE ... FOR UPDATE SKIP LOCKED ... RETURNING, LIMIT %d) over its index, "+
		"POSTs of at most %d items of a group on %d connections, and COMPLETED in one UPDATE for all that was answered meanwhile; "+
		"keeps no order and retries nothing", itemClaim, ItemRequest, itemRequests)
}

func (itemFloor) Disorderly() {}

func (f itemFloor) Create(ctx context.Context, db *pgx.Conn) error {
	_, err := db.Exec(ctx, `CREATE TABLE outbox_events (id varchar(13) PRIMARY KEY, type varchar(20) NOT NULL, message_group varchar(255),
			payload text NOT NULL, status varchar(20) NOT NULL, retry_count int NOT NULL DEFAULT 0, created_at timestamp NOT NULL,
			processed_at timestamp, error_message text);
		CREATE INDEX idx_outbox_events_status ON outbox_events (status, message_group, created_at)`)
	if err != nil {
		return err
	}
	return f.fill(ctx, db)
}

func (f itemFloor) Relay(ctx context.Context, j measure.Job) error {
	return moveItems(ctx, j.URL+ItemPath, func(ctx context.Context) (itemClaimer, error) {
		db, err := f.connect(ctx, j.Postgres)
		return postgresItems{db}, err
	})
}

// connect opens a connection with the planner settings of Outrider: the statistics
// of such a table are always stale.
func (itemFloor) connect(ctx context.Context, url string) (*pgx.Conn, error) {
	db, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, err
	}
	_, err = db.Exec(ctx, "SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_bitmapscan = off; SET jit = off")
	return db, err
}

// postgresItems claims and completes in PostgreSQL.
type postgresItems struct{ db *pgx.Conn }

func (p postgresItems) close() { _ = p.db.Close(context.Background()) }

func (p postgresItems) claim(ctx context.Context) ([]*part, error) {
	rows, err := p.db.Query(ctx, `WITH selected AS (
			SELECT id FROM outbox_events WHERE status = 'PENDING'
			ORDER BY message_group, created_at LIMIT $1 FOR UPDATE SKIP LOCKED)
		UPDATE outbox_events t SET status = 'PROCESSING', processed_at = now()
		FROM selected s WHERE t.id = s.id RETURNING t.id, t.message_group, t.payload`, itemClaim)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var parts parting
	for rows.Next() {
		v := rows.RawValues() // valid until the next row
		parts.add(v[0], v[1], v[2])
	}
	return parts.all, rows.Err()
}

func (p postgresItems) complete(ctx context.Context, ids []string) error {
	tag, err := p.db.Exec(ctx, "UPDATE outbox_events SET status = 'COMPLETED', processed_at = now() WHERE id = ANY ($1) AND (status = 'PROCESSING') IS TRUE", ids) // IS TRUE: not by the index of statuses
	if err == nil && tag.RowsAffected() != int64(len(ids)) {
		err = errNotOurs
	}
	return err
}

// errNotOurs ends a run whose claimed rows another process has changed.
var errNotOurs = errors.New("another process changed claimed rows")
