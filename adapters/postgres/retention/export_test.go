package retention

import (
	"context"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
	"github.com/outriderhq/outrider/adapters/postgres/internal/reader"
)

// Rewind begins at the first row again, and lets publishers wait again at once.
func (rm *Remover) Rewind() {
	rm.mu.Lock()
	defer rm.mu.Unlock()
	rm.swept.begun, rm.unlocked = time.Time{}, time.Time{}
}

// Unlocked is until when publishers are not made to wait again.
func (rm *Remover) Unlocked() time.Time { return rm.unlocked }

// Sink finds the next floor and returns it.
func (rm *Remover) Sink(ctx context.Context) (int64, error) {
	err := (&pass{Remover: rm}).sink(ctx)
	if f := rm.floor.Load(); f != nil {
		return f.position, err
	}
	return 0, err
}

// Covers is [meetAll].
func Covers(routes []adapters.RouteCursors) ([adapters.Slots]reader.Cover, error) {
	return meetAll(routes)
}

// Lows returns where partitions begin, and whether there is a default one.
func Lows(ctx context.Context, q pg.Querier, table string) (lows []int64, rest bool, err error) {
	all, err := listPartitions(ctx, q, table)
	for _, p := range all.ranges {
		lows = append(lows, p.low)
	}
	return lows, all.rest != nil, err
}

// DropFirst drops the first partition, which is all that may go when it is asked; before is called in between. It returns how many were dropped.
func (rm *Remover) DropFirst(ctx context.Context, r adapters.Retention, routes []adapters.RouteCursors, last int64, before func(free int)) (int, error) {
	covers, err := meetAll(routes)
	if err != nil {
		return 0, err
	}
	p := pass{Remover: rm, Retention: r, routes: routes, covers: covers}
	all, err := listPartitions(ctx, rm.base.Pool, rm.base.Quoted)
	if err != nil {
		return 0, err
	}
	free, err := p.unneeded(ctx, all.ranges, last)
	if err != nil {
		return 0, err
	}
	before(len(free))
	err = p.drop(ctx, all.ranges[:1])
	return p.result.Partitions, err
}
