package outbox

import (
	"errors"
	"fmt"
	"strings"
)

// explain adds to a statement's error what to do about it, where that is known.
func (c *Client) explain(err error) error {
	fix := sqliteFix(err)
	var state interface{ SQLState() string } // pgconn.PgError, and lib/pq's error
	if errors.As(err, &state) {
		fix = c.postgresFix(state.SQLState())
	}
	if number := mysqlNumber(err); number != 0 {
		fix = c.mysqlFix(number)
	}
	if fix == "" {
		return err
	}
	return fmt.Errorf("%w; %s", err, fix)
}

const (
	fixTable  = "create the table with `outrider init`, or set ClientConfig.Table"
	fixColumn = "the table has another layout than Outrider's own; compare it with `outrider init --print`, or set ClientConfig.Table"
)

// postgresFix returns the remedy for an SQLSTATE, or "".
func (c *Client) postgresFix(state string) string {
	switch state {
	case "42P01", "3F000": // undefined table, schema
		return fixTable + ` (a name without schema is looked for in search_path)`
	case "42703", "42804", "428C9", "23502": // undefined column, wrong type, generated column, NULL in another column
		return fixColumn
	case "42501": // insufficient privilege
		return fmt.Sprintf("let the application's role write: GRANT INSERT ON %s TO <role> (and USAGE on its schema)", c.table)
	case "25006": // read-only transaction
		return "publish in a read-write transaction on the primary server"
	case "25P02": // failed transaction
		return "an earlier statement of the transaction failed; roll it back and check that error"
	case "22P05": // a character that the database's encoding lacks
		return "the database's encoding cannot hold the text; use a database with encoding UTF8"
	}
	return ""
}

// sqliteFix goes by the message: SQLite has one code for most of these.
func sqliteFix(err error) string {
	text := err.Error()
	switch {
	case strings.Contains(text, "no such table"), strings.Contains(text, "unknown database"):
		return fixTable
	case strings.Contains(text, "has no column named"):
		return fixColumn
	case strings.Contains(text, "readonly database"):
		return "open the database file for writing"
	case strings.Contains(text, "database is locked"):
		return "another connection is writing; set busy_timeout and begin transactions with BEGIN IMMEDIATE"
	}
	return ""
}
