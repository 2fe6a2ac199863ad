package reader

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"
)

const (
	// LastPositionSQL is the last position that was drawn in the own layout. The parameter is the table.
	LastPositionSQL = `SELECT coalesce(pg_sequence_last_value(pg_get_serial_sequence($1, 'position')::regclass), 0)`

	// writersSQL names the transactions that hold the lock of an INSERT on
	// the table or a partition of it, which they hold until they end.
	writersSQL = `
SELECT DISTINCT coalesce('pid ' || l.pid, 'prepared') || ', transaction ' || l.virtualtransaction FROM pg_locks l
WHERE l.locktype = 'relation' AND l.mode = 'RowExclusiveLock' AND l.granted
  AND (l.relation = $1::text::regclass OR l.relation IN (SELECT t.relid FROM pg_partition_tree($1::text::regclass) t))
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())`
)

// Writers returns the transactions that write to the table, or may have.
func (r *Reader) Writers(ctx context.Context) ([]string, error) {
	rows, err := r.Pool.Query(ctx, writersSQL, r.Quoted)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// Common returns what both have.
func Common(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(x string) bool { return !slices.Contains(b, x) })
}
