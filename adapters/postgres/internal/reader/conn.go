package reader

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/outriderhq/outrider/adapters/postgres/internal/wire"
)

// Conn is a connection that reads rows. It works on pgx's lower half: a row
// is decoded from the network buffer, without a pass through pgx's types.
type Conn struct {
	Conn  *pgx.Conn
	Fetch *Statement
}

// Statement is a prepared statement.
type Statement struct {
	*pgconn.StatementDescription
	text    string  // for the tracer
	formats []int16 // of its columns
}

// Prepare prepares a statement on the connection.
func (c *Conn) Prepare(ctx context.Context, name, sql string) (*Statement, error) {
	d, err := c.Conn.PgConn().Prepare(ctx, name, sql, nil)
	if err != nil {
		return nil, err
	}
	st := &Statement{StatementDescription: d, text: sql, formats: make([]int16, len(d.Fields))}
	for i, f := range d.Fields {
		st.formats[i] = formatOf(f.DataTypeOID)
	}
	return st, nil
}

// formatOf is the format in which a column is requested: binary, except for types
// that are the same bytes as text, which costs the server less.
func formatOf(oid uint32) int16 {
	switch oid {
	case pgtype.TextOID, pgtype.VarcharOID, pgtype.JSONOID:
		return pgtype.TextFormatCode
	}
	return pgtype.BinaryFormatCode
}

// fetchSettings pins the plan of fetches. Its joins and orders exist as
// index scans only, so the settings rule out everything that could replace one
// when the planner's statistics are stale, which they are for a table that is
// empty most of the time. The sort that remains is of the late positions of one
// read. Row security must not hide rows silently: they would be lost.
const fetchSettings = `
SET default_transaction_isolation = 'read committed';
SET default_transaction_read_only = on;
SET row_security = off;
SET jit = off;
SET plan_cache_mode = force_generic_plan;
SET max_parallel_workers_per_gather = 0;
SET enable_indexscan = on;
SET enable_indexonlyscan = on;
SET enable_nestloop = on;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_sort = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
`

// abandonAfter is how much of an abandoned result is read and discarded,
// in bytes; with more than that to come the connection is given up.
const abandonAfter = 1 << 20

// ErrNoSnapshot is a result without its first row.
var ErrNoSnapshot = errors.New("the server returned no snapshot")

// Stream executes a statement and passes its rows to row until row wants no
// more. It is complete when the connection can be used for the next statement.
func (c *Conn) Stream(ctx context.Context, st *Statement, params [][]byte, row func(values [][]byte) (more bool, err error)) (complete bool, err error) {
	if tracer := c.Conn.Config().Tracer; tracer != nil {
		ctx = tracer.TraceQueryStart(ctx, c.Conn, pgx.TraceQueryStartData{SQL: st.text})
		defer func() { tracer.TraceQueryEnd(ctx, c.Conn, pgx.TraceQueryEndData{Err: err}) }()
	}
	result := c.Conn.PgConn().ExecStatement(ctx, st.StatementDescription, params, nil, st.formats)
	more, unwanted := true, 0
	for result.NextRow() {
		values := result.Values()
		if !more {
			if unwanted += wire.Size(values); unwanted > abandonAfter {
				return false, nil
			}
			continue
		}
		if more, err = row(values); err != nil {
			return false, err
		}
	}
	if _, err := result.Close(); err != nil {
		return false, err
	}
	return true, nil
}
