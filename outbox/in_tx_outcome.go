package outbox

import (
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Primary result codes of SQLite after which a COMMIT has had no effect.
const (
	sqliteBusy       = 5
	sqliteConstraint = 19
)

// refusedCommit reports whether the error of a COMMIT says that the transaction was not committed. The answer no
// means that it may have been. pgconn.SafeToRetry is no help: it says so too of a connection that broke while the
// answer was awaited (pgx 5.12).
func refusedCommit(err error) bool {
	if errors.Is(err, pgx.ErrTxCommitRollback) {
		return true
	}
	var state interface{ SQLState() string } // pgconn.PgError, and lib/pq's error
	if errors.As(err, &state) {
		return refusedState(state.SQLState())
	}
	if number := mysqlNumber(err); number != 0 {
		return refusedByMySQL(number)
	}
	var lite interface{ Code() int } // modernc.org/sqlite's error
	if errors.As(err, &lite) {
		code := lite.Code() & 0xff
		return code == sqliteBusy || code == sqliteConstraint
	}
	return false
}

// refusedState reports whether PostgreSQL answers a COMMIT with this SQLSTATE only if it rolled back. A connection that ends (class
// 08, which poolers answer with too), a server that stops (57P) and 40003 leave it open.
func refusedState(state string) bool {
	return state != "" && state != "40003" && !strings.HasPrefix(state, "08") && !strings.HasPrefix(state, "57P")
}
