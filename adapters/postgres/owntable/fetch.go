package owntable

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/reader"
	"github.com/outriderhq/outrider/adapters/postgres/internal/wire"
)

// Fetch implements [adapters.Source]. Drained is true for a read that took
// everything there was for it: up to now, or up to its bound, in which case
// Next equals the bound. A read that finishes an open window is not drained.
//
// After an error the next Fetch connects again.
func (s *Source) Fetch(ctx context.Context, reads []adapters.Read, take func(int, *adapters.Row) bool) ([]adapters.ReadResult, error) {
	s.base.Mu.Lock()
	defer s.base.Mu.Unlock()
	plans, err := s.planReads(reads)
	if err != nil {
		return nil, s.base.Explain("read", err)
	}
	r, err := s.base.Connected(ctx, reads)
	if err != nil {
		return nil, err
	}
	f := fetch{
		source: s, reads: reads, plans: plans, rangeScan: s.planRangeScan(reads, plans),
		done: make([]reader.Progress, len(reads)), decoder: &s.base.Decoder, take: take,
	}
	complete, err := f.run(ctx, r)
	if err != nil || !complete {
		s.base.Drop()
	}
	if exceeded(err) {
		s.limits.names, err = true, errLongNames
	}
	if err != nil {
		return nil, s.base.Explain("read", err)
	}
	if f.stopped {
		return nil, nil
	}
	if f.rangeScan != nil && f.rangeScan.cut {
		s.rangeScanPause = rangeScanPause
	}
	return f.results(), nil
}

// planReads returns the plans of reads, above the floor.
func (s *Source) planReads(reads []adapters.Read) ([]reader.Plan, error) {
	plans := make([]reader.Plan, len(reads))
	for i := range reads {
		var err error
		if plans[i], err = reader.PlanRead(&reads[i]); err != nil {
			return nil, err
		}
		s.Raise(&plans[i])
	}
	return plans, nil
}

// fetch is one call of Fetch.
type fetch struct {
	source    *Source
	reads     []adapters.Read
	plans     []reader.Plan
	rangeScan *rangeScan // nil: none
	done      []reader.Progress
	decoder   *wire.Decoder
	take      func(int, *adapters.Row) bool
	own       string // the snapshot at which the statement runs; "" before the first row
	current   int    // the read whose rows are coming
	stopped   bool   // take wanted no more
}

// run executes the statement and hands over the rows. It is complete when the
// connection can be used for the next one.
func (f *fetch) run(ctx context.Context, r *reader.Conn) (complete bool, err error) {
	switch {
	case f.rangeScan != nil:
		complete, err = f.runRangeScan(ctx, r)
	case fitsOne(f.plans):
		complete, err = f.runOne(ctx, r)
	default:
		complete, err = r.Stream(ctx, r.Fetch, fetchParams(f.plans), f.row)
	}
	if err == nil && complete && f.own == "" {
		err = reader.ErrNoSnapshot
	}
	return complete, err
}

// row takes one row of the result.
func (f *fetch) row(values [][]byte) (more bool, err error) {
	read := int(wire.Int32FromBinary(values[reader.FetchRead])) - 1
	if read == -1 {
		f.own = string(values[reader.FetchID])
		return true, nil
	}
	late, position := values[reader.FetchLate][0] != 0, wire.Int64FromBinary(values[reader.FetchPosition])
	if read < 0 {
		return f.rangeScan.keep(f, -read-2, position, values), nil
	}
	return f.give(read, late, position, decodeRow(f.decoder, values))
}

// give hands a row over.
func (f *fetch) give(read int, late bool, position int64, row *adapters.Row) (more bool, err error) {
	p := &f.done[read]
	if err := f.inOrder(read, late, position, p); err != nil {
		return false, err
	}
	if p.Page == nil {
		p.Page = &adapters.Page{From: f.reads[read].From, Snapshot: f.plans[read].SeenBy(f.own), At: time.Now()}
	}
	p.Rows++
	p.Late, p.Last = late, position
	row.Slot, row.Position, row.Late, row.Page = f.plans[read].Slot, position, late, p.Page
	p.Row = row
	f.stopped = !f.take(read, row)
	return !f.stopped, nil
}

// inOrder checks what the statement's plan promises. A result in another order
// would invert groups, so it is refused before its rows are delivered.
func (f *fetch) inOrder(read int, late bool, position int64, p *reader.Progress) error {
	ordered := read >= f.current && (p.Rows == 0 || late == p.Late && position > p.Last || p.Late && !late)
	if !ordered || f.own == "" {
		return fmt.Errorf("the server returned position %d of slot %d out of order; please report this with the server's version",
			position, f.plans[read].Slot)
	}
	f.current = read
	return nil
}

// results says where the reads ended.
func (f *fetch) results() []adapters.ReadResult {
	results := make([]adapters.ReadResult, len(f.reads))
	for i := range results {
		if p := &f.plans[i]; f.rangeScan.has(p.Slot, i) && f.done[i].Rows < p.Limit {
			results[i] = f.finishRangeScan(i)
			continue
		}
		results[i] = reader.Finish(&f.reads[i], &f.plans[i], &f.done[i], f.own)
	}
	f.decoder.Saw(f.reads, results)
	return results
}

// fetchParams writes the plans as the statement's parameters, in PostgreSQL's text form.
func fetchParams(plans []reader.Plan) [][]byte {
	var a [8]wire.Array
	for i := range a {
		a[i] = wire.NewArray(len(plans), 24)
	}
	late, fresh := int64(math.MaxInt64), int64(math.MaxInt64)
	for i := range plans {
		p := &plans[i]
		late, fresh = min(late, p.Above), min(fresh, p.Position)
		a[0].Number(int64(p.Slot))
		a[1].Number(p.Position)
		a[2].TextOrNull(p.Snapshot)
		a[3].TextOrNull(p.Target)
		a[4].Number(p.Above)
		a[5].Number(p.Base)
		a[6].Number(p.Upto)
		a[7].Number(int64(p.Limit))
	}
	params := make([][]byte, 0, len(a)+5) // with those of a range scan
	for i := range a {
		params = append(params, a[i].End())
	}
	return append(params, strconv.AppendInt(nil, late, 10), strconv.AppendInt(nil, fresh, 10))
}
