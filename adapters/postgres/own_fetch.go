package postgres

import (
	"context"
	"fmt"
	"math"
	"strconv"

	"github.com/outriderhq/outrider/outbox"
)

// Fetch implements [outbox.Source]. Drained is true for a read that took
// everything there was for it: up to now, or up to its bound, in which case
// Next equals the bound. A read that finishes an open window is not drained.
//
// After an error the next Fetch connects again.
func (s *Source) Fetch(ctx context.Context, reads []outbox.Read, take func(int, *outbox.Row) bool) ([]outbox.ReadResult, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	plans, err := s.planReads(reads)
	if err != nil {
		return nil, explain(s.table, "read", err)
	}
	r, err := s.connected(ctx, reads)
	if err != nil {
		return nil, err
	}
	f := fetch{
		source: s, reads: reads, plans: plans, band: s.planBand(reads, plans),
		done: make([]progress, len(reads)), decoder: &s.decoder, take: take,
	}
	complete, err := f.run(ctx, r)
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
	source  *Source
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
func (f *fetch) run(ctx context.Context, r *readConn) (complete bool, err error) {
	if f.band == nil {
		complete, err = r.stream(ctx, r.fetch, fetchParams(f.plans), f.row)
	} else {
		complete, err = f.runBand(ctx, r)
	}
	if err == nil && complete && f.own == "" {
		err = errNoSnapshot
	}
	return complete, err
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
	return f.give(read, late, position, decodeRow(f.decoder, values))
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

// fetchParams writes the plans as the statement's parameters, in PostgreSQL's text form.
func fetchParams(plans []plan) [][]byte {
	var a [8]arrayText
	for i := range a {
		a[i] = newArrayText(len(plans), 24)
	}
	late, fresh := int64(math.MaxInt64), int64(math.MaxInt64)
	for i := range plans {
		p := &plans[i]
		late, fresh = min(late, p.above), min(fresh, p.position)
		a[0].number(int64(p.slot))
		a[1].number(p.position)
		a[2].textOrNull(p.snapshot)
		a[3].textOrNull(p.target)
		a[4].number(p.above)
		a[5].number(p.base)
		a[6].number(p.upto)
		a[7].number(int64(p.limit))
	}
	params := make([][]byte, 0, len(a)+5) // with those of a band
	for i := range a {
		params = append(params, a[i].end())
	}
	return append(params, strconv.AppendInt(nil, late, 10), strconv.AppendInt(nil, fresh, 10))
}
