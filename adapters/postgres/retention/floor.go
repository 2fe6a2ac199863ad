package retention

import (
	"context"
	"fmt"

	"github.com/outriderhq/outrider/adapters/postgres/internal/reader"
)

// floor says that all rows at or below a position which will ever exist are
// visible in a snapshot. A cursor whose snapshot covers that one has no late rows
// there, so reading need not look into the partitions below: without a floor
// every read would look into all of them.
type floor struct {
	position int64
	snap     reader.Snapshot
}

// raise is [Remover.Raise].
func (f *floor) raise(p *reader.Plan) {
	if f == nil || f.position <= p.Above {
		return
	}
	if taken, err := reader.ParseSnapshot(p.Snapshot); err == nil && taken.Covers(f.snap) {
		p.Above = f.position
	}
}

// Raise gives a plan the floor below which it need not read.
func (rm *Remover) Raise(p *reader.Plan) { rm.floor.Load().raise(p) }

// DropFloor forgets the floor, which belongs to the server that the reader was connected to.
func (rm *Remover) DropFloor() { rm.floor.Store(nil) }

// candidate is a position that becomes the floor when the transactions have
// ended that could have drawn it, or one below it, and not yet committed.
type candidate struct {
	position int64
	writers  []string
}

// sink finds the next floor. The order is what makes it right: the last position
// first, then who could have drawn it (a transaction locks the table before it
// draws a position, until others see it as ended), and the snapshot last, in
// which those who have ended are visible.
func (p *pass) sink(ctx context.Context) error {
	var position int64
	if err := p.base.Pool.QueryRow(ctx, reader.LastPositionSQL, p.base.Quoted).Scan(&position); err != nil {
		return err
	}
	if f := p.floor.Load(); f != nil && position < f.position {
		p.floor.Store(nil)
		p.candidate = candidate{}
		return fmt.Errorf("the sequence of positions was restarted at %d, below %d: rows that were written since then may not have been read; "+
			"`outrider seek` moves a route before the first of them", position, f.position)
	}
	writers, err := p.base.Writers(ctx)
	if err != nil {
		return err
	}
	var own string
	if err := p.base.Pool.QueryRow(ctx, `SELECT pg_current_snapshot()::text`).Scan(&own); err != nil {
		return err
	}
	snap, err := reader.ParseSnapshot(own)
	if err != nil {
		return err
	}
	c := &p.candidate
	switch {
	case len(writers) == 0:
		*c = candidate{position: position}
	case len(reader.Common(c.writers, writers)) > 0:
		return nil // it is not certain yet
	}
	if c.position > 0 {
		p.floor.Store(&floor{position: c.position, snap: snap})
	}
	*c = candidate{position: position, writers: writers}
	return nil
}
