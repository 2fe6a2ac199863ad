package owntable

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/sqlite/internal/lite"
)

// DefaultTable is the name of the outbox table unless one is given.
const DefaultTable = "outrider_outbox"

// layout is Outrider's own outbox table. Only type and a payload are required.
// AUTOINCREMENT, and not a plain rowid, because positions of deleted rows must
// never be used again.
const layout = `CREATE TABLE IF NOT EXISTS %s (
    position       INTEGER PRIMARY KEY AUTOINCREMENT,
    id             TEXT NOT NULL DEFAULT (lower(hex(randomblob(16)))),
    type           TEXT NOT NULL,
    message_group  TEXT,
    aggregate_type TEXT,
    aggregate_id   TEXT,
    tenant_id      TEXT,
    tags           TEXT, -- a JSON object of strings
    headers        TEXT, -- a JSON object of strings
    payload        TEXT, -- JSON
    payload_bytes  BLOB, -- anything else
    occurred_at    TEXT, -- RFC 3339
    created_at     TEXT DEFAULT (strftime('%%Y-%%m-%%dT%%H:%%M:%%fZ', 'now')),
    CHECK ((payload IS NULL) <> (payload_bytes IS NULL))
);
`

// columns are those of [layout], in the order in which a read selects them.
var columns = []string{
	"position", "id", "type", "message_group", "aggregate_type", "aggregate_id", "tenant_id",
	"tags", "headers", "payload", "payload_bytes", "occurred_at", "created_at",
}

// selected are [columns] as a read selects them: what is too large is asked for its
// size, which SQLite knows without reading it, and left out. Of tags and headers one
// byte more is read than is allowed, of names and times one character. The last one is how many
// bytes a payload has that was left out.
func selected(maxRow int64) []string {
	const metadata = adapters.MaxRowMetadataBytes
	out := make([]string, 0, len(columns)+1)
	for _, c := range columns {
		switch c {
		case "position":
		case "payload", "payload_bytes":
			c = fmt.Sprintf("CASE WHEN octet_length(%[1]s) > %[2]d THEN NULL ELSE %[1]s END", c, maxRow)
		case "tags", "headers":
			c = fmt.Sprintf("CASE WHEN octet_length(%[1]s) > %[2]d THEN substr(%[1]s, 1, %[2]d + 1) ELSE %[1]s END", c, metadata)
		default:
			c = lite.Bounded(c)
		}
		out = append(out, c)
	}
	return append(out, fmt.Sprintf("CASE WHEN max(coalesce(octet_length(payload), 0), coalesce(octet_length(payload_bytes), 0)) > %d "+
		"THEN max(coalesce(octet_length(payload), 0), coalesce(octet_length(payload_bytes), 0)) ELSE 0 END", maxRow))
}

// InitSQL returns the statements that create an outbox table of the name (empty:
// [DefaultTable]), and what its file is known by, unless they exist.
func InitSQL(table string) string {
	return fmt.Sprintf(layout, lite.Quote(tableName(table))) + fileSQL
}

// Init creates the outbox table unless it exists, puts the file into WAL mode,
// and returns a sentence for each thing that it created or found. An empty name
// means [DefaultTable]. A table of another shape is an error.
func Init(ctx context.Context, db *sql.DB, table string) ([]string, error) {
	table = tableName(table)
	if err := lite.UseWAL(ctx, db); err != nil {
		return nil, fmt.Errorf("sqlite: init: %w", err)
	}
	var before int
	err := lite.RetryBusy(ctx, func() error {
		err := db.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = ?`, table).Scan(&before)
		if err != nil {
			return err
		}
		_, err = db.ExecContext(ctx, InitSQL(table))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("sqlite: create outbox table %s: %w", table, err)
	}
	if before == 0 {
		return []string{"created table " + table}, nil
	}
	if err := checkLayout(ctx, db, table); err != nil {
		return nil, fmt.Errorf("sqlite: %w", err)
	}
	return []string{"table " + table + " exists"}, nil
}

func tableName(table string) string {
	if table == "" {
		return DefaultTable
	}
	return table
}

// checkLayout verifies that the table is one that [Source] can read.
func checkLayout(ctx context.Context, db *sql.DB, table string) error {
	var ddl string
	err := db.QueryRowContext(ctx, `SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?`, table).Scan(&ddl)
	if errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("outbox table %s does not exist; create it with `outrider init`", table)
	}
	if err != nil {
		return err
	}
	if !strings.Contains(strings.ToUpper(ddl), "AUTOINCREMENT") {
		return fmt.Errorf("outbox table %s: position is not INTEGER PRIMARY KEY AUTOINCREMENT, so positions could be used "+
			"twice and rows missed; compare with `outrider init --print`", table)
	}
	there, err := columnsOf(ctx, db, table)
	if err != nil {
		return err
	}
	var missing []string
	for _, column := range columns {
		if !there[column] {
			missing = append(missing, column)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("outbox table %s has no column %s; compare with `outrider init --print`",
			table, strings.Join(missing, ", "))
	}
	return nil
}

// columnsOf returns the columns of a table in lower case; none: there is no such
// table.
func columnsOf(ctx context.Context, db *sql.DB, table string) (map[string]bool, error) {
	rows, err := db.QueryContext(ctx, `SELECT name FROM pragma_table_info(?)`, table)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // Err returns the error
	there := map[string]bool{}
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		there[strings.ToLower(name)] = true
	}
	return there, rows.Err()
}
