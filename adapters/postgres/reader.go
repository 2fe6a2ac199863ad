package postgres

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/outriderhq/outrider/outbox"
)

// reader is the connection that reads rows. It works on pgx's lower half: a row
// is decoded from the network buffer, without a pass through pgx's types.
type reader struct {
	conn   *pgx.Conn
	limits limits // of the own layout's statements
	fetch  *statement
	band   *statement // nil until a band is read
}

// statement is a prepared statement.
type statement struct {
	*pgconn.StatementDescription
	text    string  // for the tracer
	formats []int16 // of its columns
}

// prepare prepares a statement on the connection.
func (r *reader) prepare(ctx context.Context, name, sql string) (*statement, error) {
	d, err := r.conn.PgConn().Prepare(ctx, name, sql, nil)
	if err != nil {
		return nil, err
	}
	st := &statement{StatementDescription: d, text: sql, formats: make([]int16, len(d.Fields))}
	for i, f := range d.Fields {
		st.formats[i] = formatOf(f.DataTypeOID)
	}
	return st, nil
}

// formatOf is the format in which a column is asked for: binary, except for types
// that are the same bytes as text, which costs the server less.
func formatOf(oid uint32) int16 {
	switch oid {
	case pgtype.TextOID, pgtype.VarcharOID, pgtype.JSONOID:
		return pgtype.TextFormatCode
	}
	return pgtype.BinaryFormatCode
}

// abandonAfter is how much of a result that nobody wants any more is read away,
// in bytes; with more than that to come the connection is given up.
const abandonAfter = 1 << 20

// Fetch implements [outbox.Source]. Drained is true for a read that took
// everything there was for it: up to now, or up to its bound, in which case
// Next equals the bound. A read that finishes an open window is not drained.
//
// After an error the next Fetch connects again.
func (s *Source) Fetch(ctx context.Context, reads []outbox.Read, take func(int, *outbox.Row) bool) ([]outbox.ReadResult, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, fmt.Errorf("outbox table %s: the source is closed", s.table)
	}
	plans, err := s.planReads(reads)
	if err != nil {
		return nil, explain(s.table, "read", err)
	}
	f := fetch{reads: reads, plans: plans, done: make([]progress, len(reads)), decoder: &s.decoder, take: take}
	if s.reader == nil {
		r, err := s.connectReader(ctx, reads)
		if err != nil {
			return nil, explain(s.table, "connect to read", err)
		}
		s.reader = r
		s.log.DebugContext(ctx, "connected to read an outbox table", "table", s.table)
	}
	f.band = s.planBand(reads, f.plans)
	complete, err := f.run(ctx, s.reader, s.layout.table)
	if err != nil || !complete {
		s.drop()
	}
	if exceeded(err) {
		s.limits.names, err = true, errLongNames
	}
	if err != nil {
		return nil, explain(s.table, "read", err)
	}
	if f.stopped {
		return nil, nil
	}
	if f.band != nil && f.band.cut {
		s.bandRest = bandRest
	}
	return f.results(), nil
}

// planReads returns the plans of reads, above the floor.
func (s *Source) planReads(reads []outbox.Read) ([]plan, error) {
	plans := make([]plan, len(reads))
	for i := range reads {
		var err error
		if plans[i], err = planRead(&reads[i]); err != nil {
			return nil, err
		}
		s.floor.Load().raise(&plans[i])
	}
	return plans, nil
}

// fetch is one call of Fetch.
type fetch struct {
	reads   []outbox.Read
	plans   []plan
	band    *band // nil: none
	done    []progress
	decoder *decoder
	take    func(int, *outbox.Row) bool
	own     string // the snapshot at which the statement runs; "" before the first row
	current int    // the read whose rows are coming
	stopped bool   // take wanted no more
}

// run executes the statement and hands over the rows. It is complete when the
// connection can be used for the next one.
func (f *fetch) run(ctx context.Context, r *reader, table string) (complete bool, err error) {
	if f.band == nil {
		complete, err = r.stream(ctx, r.fetch, fetchParams(f.plans), f.row)
	} else {
		complete, err = f.runBand(ctx, r, table)
	}
	if err == nil && complete && f.own == "" {
		err = errNoSnapshot
	}
	return complete, err
}

// errNoSnapshot is a result without its first row.
var errNoSnapshot = errors.New("the server returned no snapshot")

// stream executes a statement and gives row what it returns until row wants no
// more. It is complete when the connection can be used for the next statement.
func (r *reader) stream(ctx context.Context, st *statement, params [][]byte, row func(values [][]byte) (more bool, err error)) (complete bool, err error) {
	if tracer := r.conn.Config().Tracer; tracer != nil {
		ctx = tracer.TraceQueryStart(ctx, r.conn, pgx.TraceQueryStartData{SQL: st.text})
		defer func() { tracer.TraceQueryEnd(ctx, r.conn, pgx.TraceQueryEndData{Err: err}) }()
	}
	result := r.conn.PgConn().ExecStatement(ctx, st.StatementDescription, params, nil, st.formats)
	more, unwanted := true, 0
	for result.NextRow() {
		values := result.Values()
		if !more {
			if unwanted += size(values); unwanted > abandonAfter {
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

// row takes one row of the result.
func (f *fetch) row(values [][]byte) (more bool, err error) {
	read := int(int32FromBinary(values[fetchRead])) - 1
	if read == -1 {
		f.own = string(values[fetchID])
		return true, nil
	}
	late, position := values[fetchLate][0] != 0, int64FromBinary(values[fetchPosition])
	if read < 0 {
		return f.band.keep(f, -read-2, position, values), nil
	}
	return f.give(read, late, position, f.decoder.row(values))
}

// give hands a row over.
func (f *fetch) give(read int, late bool, position int64, row *outbox.Row) (more bool, err error) {
	p := &f.done[read]
	if err := f.inOrder(read, late, position, p); err != nil {
		return false, err
	}
	if p.page == nil {
		p.page = &outbox.Page{From: f.reads[read].From, Snapshot: f.plans[read].seenBy(f.own)}
	}
	p.rows++
	p.late, p.last = late, position
	row.Slot, row.Position, row.Late, row.Page = f.plans[read].slot, position, late, p.page
	p.row = row
	f.stopped = !f.take(read, row)
	return !f.stopped, nil
}

// inOrder checks what the statement's plan promises. A result in another order
// would invert groups, so it is refused before its rows are delivered.
func (f *fetch) inOrder(read int, late bool, position int64, p *progress) error {
	ordered := read >= f.current && (p.rows == 0 || late == p.late && position > p.last || p.late && !late)
	if !ordered || f.own == "" {
		return fmt.Errorf("the server returned position %d of slot %d out of order; please report this with the server's version",
			position, f.plans[read].slot)
	}
	f.current = read
	return nil
}

// results says where the reads ended.
func (f *fetch) results() []outbox.ReadResult {
	results := make([]outbox.ReadResult, len(f.reads))
	for i := range results {
		if p := &f.plans[i]; f.band.has(p.slot, i) && f.done[i].rows < p.limit {
			results[i] = f.finishBand(i)
			continue
		}
		results[i] = finish(&f.reads[i], &f.plans[i], &f.done[i], f.own)
	}
	return results
}

// size returns the bytes of a row.
func size(values [][]byte) (n int) {
	for _, v := range values {
		n += len(v)
	}
	return n
}

// fetchParams writes the plans as the statement's parameters, in PostgreSQL's text form.
func fetchParams(plans []plan) [][]byte {
	params := make([][]byte, 8)
	for i := range params {
		params[i] = append(make([]byte, 0, 24*len(plans)+2), '{')
	}
	late, fresh := int64(math.MaxInt64), int64(math.MaxInt64)
	for i := range plans {
		p := &plans[i]
		late, fresh = min(late, p.above), min(fresh, p.position)
		if i > 0 {
			for j := range params {
				params[j] = append(params[j], ',')
			}
		}
		params[0] = strconv.AppendInt(params[0], int64(p.slot), 10)
		params[1] = strconv.AppendInt(params[1], p.position, 10)
		params[2] = appendSnapshot(params[2], p.snapshot)
		params[3] = appendSnapshot(params[3], p.target)
		params[4] = strconv.AppendInt(params[4], p.above, 10)
		params[5] = strconv.AppendInt(params[5], p.base, 10)
		params[6] = strconv.AppendInt(params[6], p.upto, 10)
		params[7] = strconv.AppendInt(params[7], int64(p.limit), 10)
	}
	for i := range params {
		params[i] = append(params[i], '}')
	}
	return slices.Concat(params, [][]byte{strconv.AppendInt(nil, late, 10), strconv.AppendInt(nil, fresh, 10)})
}

// appendSnapshot writes a snapshot as an element of an array; none is null. It
// is quoted whatever it is: the server says what is wrong with it.
func appendSnapshot(b []byte, snapshot string) []byte {
	if snapshot == "" {
		return append(b, "NULL"...)
	}
	b = append(b, '"')
	for i := range len(snapshot) {
		if c := snapshot[i]; c == '"' || c == '\\' {
			b = append(b, '\\')
		}
		b = append(b, snapshot[i])
	}
	return append(b, '"')
}
