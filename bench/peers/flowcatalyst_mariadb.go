package peers

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"strings"

	"github.com/outriderhq/outrider/bench/measure"

	"github.com/outriderhq/outrider/adapters/mysql"
)

// mariaItems is FlowCatalyst's table in MariaDB.
type mariaItems struct{}

// The peers of the scenario mariadb.
var (
	MariaFloor = storedFloor{storedItems{mariaItems{}}, fmt.Sprintf("the claim of FlowCatalyst's document for MySQL, in one transaction (SELECT id ... FOR UPDATE SKIP LOCKED LIMIT %d "+
		"over its index, UPDATE ... WHERE id IN, SELECT * ... WHERE id IN)", itemClaim)}
	MariaRelay = relayTo(mariaItems{}, `type: mysql, url: {mysql}`, "", "tables and state in MariaDB")
)

func (mariaItems) variable() string { return envMySQL }

// on opens connections to a database of the server; "": to none.
func (mariaItems) on(name string) (*sql.DB, error) {
	return mysql.Open(mariaURL(name), mysql.TLS{})
}

// mariaURL is the address of a database.
func mariaURL(name string) string {
	return strings.TrimSuffix(os.Getenv(envMySQL), "/") + "/" + name
}

// exec runs statements one after the other.
func (m mariaItems) exec(ctx context.Context, name string, statements ...string) error {
	db, err := m.on(name)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }() // the statements have been answered
	for _, s := range statements {
		if _, err := db.ExecContext(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
	}
	return nil
}

func (m mariaItems) make(ctx context.Context, name string) error {
	return m.exec(ctx, "", "CREATE DATABASE "+name)
}

func (m mariaItems) drop(ctx context.Context, name string) error {
	return m.exec(ctx, "", "DROP DATABASE IF EXISTS "+name)
}

func (m mariaItems) table(ctx context.Context, name string) error {
	return m.exec(ctx, name, `CREATE TABLE outbox_events (id varchar(13) PRIMARY KEY, type varchar(20) NOT NULL, message_group varchar(255),
		payload longtext NOT NULL, status varchar(20) NOT NULL, retry_count int NOT NULL DEFAULT 0, created_at timestamp(6) NOT NULL DEFAULT current_timestamp(6),
		processed_at timestamp(6) NULL, error_message text) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4`,
		"CREATE INDEX idx_outbox_events_status ON outbox_events (status, message_group, created_at)")
}

// fill empties the table with TRUNCATE, so that each run has the same table.
func (m mariaItems) fill(ctx context.Context, name string, items func(yield func(*item) bool)) error {
	db, err := m.on(name)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }() // what was committed is
	if err := m.exec(ctx, name, "TRUNCATE outbox_events"); err != nil {
		return err
	}
	var states int
	err = db.QueryRowContext(ctx, "SELECT count(*) FROM information_schema.tables WHERE table_schema = database() AND table_name = 'outrider_cursor'").Scan(&states)
	if err == nil && states > 0 {
		err = m.exec(ctx, name, "DELETE FROM outrider_cursor", "DELETE FROM outrider_instance")
	}
	if err != nil {
		return err
	}
	var values []any
	write := func() error {
		if len(values) == 0 {
			return nil
		}
		_, err := db.ExecContext(ctx, withPlaces("INSERT INTO outbox_events (id, type, message_group, payload, status, created_at) VALUES {places}",
			"(?, 'EVENT', ?, ?, 'PENDING', ?)", len(values)/4), values...)
		values = values[:0]
		return err
	}
	for i := range items {
		if values = append(values, i.id, i.group, i.payload, i.created); len(values) == 4*measure.CommitRows {
			if err := write(); err != nil {
				return err
			}
		}
	}
	if err := write(); err != nil {
		return err
	}
	return m.exec(ctx, name, "ANALYZE TABLE outbox_events")
}

func (m mariaItems) wrong(ctx context.Context, name string) (n int, err error) {
	db, err := m.on(name)
	if err != nil {
		return 0, err
	}
	defer func() { _ = db.Close() }() // it was only read
	err = db.QueryRowContext(ctx, `SELECT count(*) FROM outbox_events WHERE NOT (status = 'COMPLETED'
		AND processed_at IS NOT NULL AND retry_count = 0 AND error_message IS NULL)`).Scan(&n)
	return n, err
}

func (m mariaItems) claimer(_ context.Context, name string) (itemClaimer, error) {
	db, err := m.on(name)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	return mariaClaimer{db}, nil
}

// withPlaces puts n places for parameters into a statement.
func withPlaces(statement, place string, n int) string {
	return strings.ReplaceAll(statement, "{places}", strings.TrimSuffix(strings.Repeat(place+", ", n), ", "))
}

// mariaClaimer claims and completes by the document's statements.
type mariaClaimer struct{ db *sql.DB }

func (c mariaClaimer) close() { _ = c.db.Close() }

func (c mariaClaimer) claim(ctx context.Context) ([]*part, error) {
	tx, err := c.db.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }() // unless it was committed
	ids, err := c.lock(ctx, tx)
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	if _, err := tx.ExecContext(ctx, withPlaces("UPDATE outbox_events SET status = 'PROCESSING', processed_at = NOW() WHERE id IN ({places})", "?", len(ids)), ids...); err != nil {
		return nil, err
	}
	rows, err := tx.QueryContext(ctx, withPlaces("SELECT id, message_group, payload FROM outbox_events WHERE id IN ({places})", "?", len(ids)), ids...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // Err returns the error
	var parts parting
	for rows.Next() {
		var id, group, payload sql.RawBytes
		if err := rows.Scan(&id, &group, &payload); err != nil {
			return nil, err
		}
		parts.add(id, group, payload)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	return parts.all, tx.Commit()
}

// lock selects and locks the rows to claim.
func (mariaClaimer) lock(ctx context.Context, tx *sql.Tx) (ids []any, err error) {
	rows, err := tx.QueryContext(ctx, "SELECT id FROM outbox_events WHERE status = 'PENDING' ORDER BY message_group, created_at LIMIT ? FOR UPDATE SKIP LOCKED", itemClaim)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // Err returns the error
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

func (c mariaClaimer) complete(ctx context.Context, ids []string) error {
	args := make([]any, len(ids))
	for i, id := range ids {
		args[i] = id
	}
	done, err := c.db.ExecContext(ctx, withPlaces("UPDATE outbox_events FORCE INDEX (PRIMARY) SET status = 'COMPLETED', processed_at = NOW() "+
		"WHERE id IN ({places}) AND status = 'PROCESSING'", "?", len(ids)), args...)
	if err != nil {
		return err
	}
	if n, err := done.RowsAffected(); err != nil || n != int64(len(ids)) {
		return errNotOurs
	}
	return nil
}
