package lane

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/internal/failpoint"
	"github.com/outriderhq/outrider/router/internal/parkedgroup"
	"github.com/outriderhq/outrider/router/internal/settling"
	"github.com/outriderhq/outrider/router/internal/signal"
)

// pump reads parked messages back when their groups are due. The session runs it and lets the messages into the lane.
type pump struct {
	ctx     context.Context // of the session
	route   *Route
	parking *parking
	mu      *sync.Mutex          // the session's
	loading settling.CallTimeout // of a read of the parking
	begin   func()               // begins the goroutine that brings messages back
	started bool                 // the session is; guarded by mu, as the next one
	running bool                 // that goroutine does
}

// planned has groups brought back of which the way back is planned. It is called with the mutex held.
func (p *pump) planned() {
	switch {
	case p.running:
		signal.Send(p.parking.kicked)
	case p.started && p.ctx.Err() == nil: // after it ends nothing begins, for which a stop would have to wait
		if _, _, planned := p.parking.groups.Next(); planned {
			p.running = true
			p.begin()
		}
	}
}

// dueGroups returns the groups that are due, as many as the lane has room for, and how long to wait for the next (-1: none is planned, and
// the goroutine that asks ends); full: there was no room.
func (p *pump) dueGroups(now time.Time) (due []*parkedgroup.Group, wait time.Duration, full bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	parking := p.parking
	room := max(p.route.Window/4, 1) - parking.live
	for len(due) < 32 {
		g, at, ok := parking.groups.Next()
		switch {
		case !ok && len(due) == 0:
			p.running = false
			return nil, -1, false
		case !ok:
			return due, 0, false
		case at.After(now):
			return due, at.Sub(now), false
		case room <= 0 || p.route.Memory.Spent(p.portion()):
			return due, ReleaseDelay, true
		}
		room -= parking.groups.Load(g, p.batch(g))
		due = append(due, g)
	}
	return due, 0, false
}

// batch is how many parked messages of a group come back at a time: no more than the window has room for. Of a group that was parked because
// it did not move only the first comes, to see whether it moves now.
func (p *pump) batch(g *parkedgroup.Group) int {
	if g.Evicted() {
		return 1
	}
	return max(min(64, p.route.Window/4), 1)
}

// report logs an outage of reading, and returns how long to wait after it.
func (p *pump) report(err error, lane string) time.Duration {
	switch {
	case errors.Is(err, errLater):
		return ReleaseDelay
	case err != nil:
		if p.ctx.Err() == nil {
			p.route.unparking.Fail(p.route.Log(), slog.LevelWarn, "cannot read parked messages, trying again", err, "lane", lane)
		}
		return ShortDelay
	}
	p.route.unparking.End(p.route.Log(), "parked messages can be read again")
	return 0
}

// errLater says that a group cannot be read now: there is no memory, or it changed meanwhile.
var errLater = errors.New("there is no memory for a parked message")

// portion is the memory that a read of parked messages takes before their size is known.
func (p *pump) portion() int64 { return min(1<<20, p.route.Memory.Budget.Limit/16) }

// read reads the first messages of a group, as many payloads as fit into the memory that it takes; the caller gives that back. A larger
// first message is read alone.
func (p *pump) read(g *parkedgroup.Group) (rows []adapters.Parked, taken int64, err error) {
	after, limit := int64(0), g.Limit()
	if g.Key.Group == "" {
		after, limit = g.Key.Alone.Seq-1, 1
	}
	taken = p.portion()
	if !p.route.Memory.Take(taken) {
		return nil, 0, errLater
	}
	rows, err = p.query(g, after, limit, taken)
	if err == nil && len(rows) > 0 && rows[0].Bare {
		p.route.Memory.Give(taken)
		taken = rows[0].Size + p.route.Overhead()
		if !p.route.Memory.Take(taken) {
			return nil, 0, errLater
		}
		var whole []adapters.Parked
		if whole, err = p.query(g, after, 1, math.MaxInt64); err == nil && (len(whole) == 0 || whole[0].Seq != rows[0].Seq) {
			err = errLater
		}
		rows = slices.Concat(whole, rows[1:])
	}
	failpoint.Hit(failpoint.Unparking)
	return rows, taken, err
}

// query reads messages of a group. A connection that does not answer must not keep the lane's other groups in the parking.
func (p *pump) query(g *parkedgroup.Group, after int64, limit int, bytes int64) (rows []adapters.Parked, err error) {
	err = p.loading.Call(p.ctx, func(ctx context.Context) (err error) {
		rows, err = p.route.State.ParkedQueue(ctx, adapters.LaneRef{Route: p.route.Name, Slot: g.Slot}, g.Key.Group, after, limit, bytes)
		return err
	})
	return rows, err
}

// loaded takes the rows that were read of a group. It returns the messages that enter the lane, and those that came for the group meanwhile.
func (p *parking) loaded(g *parkedgroup.Group, rows []adapters.Parked, err error) (items, aside []*Item) {
	again := g.Loaded()
	aside = p.aside[g.Key]
	delete(p.aside, g.Key)
	switch {
	case errors.Is(err, errLater):
		p.groups.Again(g, time.Now().Add(ReleaseDelay))
	case err != nil:
		p.groups.Again(g, time.Now().Add(ShortDelay))
	case again:
		p.groups.Again(g, time.Time{})
	default:
		items = p.inject(g, rows)
	}
	return items, aside
}

// inject makes items of the rows that were read, and returns those that enter the lane, in order.
func (p *parking) inject(g *parkedgroup.Group, rows []adapters.Parked) (items []*Item) {
	if g.Key.Group == "" && len(rows) > 0 && rows[0].Seq != g.Key.Alone.Seq {
		rows = nil
	}
	if g.Key.Group == "" || len(rows) < g.Limit() {
		g.Recount(len(rows)) // an operator may have taken some away
	}
	now := time.Now()
	switch {
	case len(rows) == 0:
		p.changed(g)
		return nil
	case rows[0].Status == adapters.ParkedHeld:
		g.Hold()
		return nil
	case g.Paused(): // while it was read
		return nil
	case rows[0].NextAttemptAt.After(now) && !p.early(rows[0]):
		p.correct(g, rows)
		g.AwaitPoison(p.route.poison != nil && rows[0].Metadata[MetaDeath] != "") // otherwise another address was back
		p.groups.Again(g, rows[0].NextAttemptAt)
		return nil
	}
	for _, row := range rows {
		if row.Status == adapters.ParkedHeld || row.Bare {
			break // whatever is behind a held message waits with it, and behind one that did not fit
		}
		it := p.itemOf(row)
		if it == nil {
			break
		}
		g.Enter(&it.Member)
		p.live++
		p.here[it.parkedRow()] = it
		items = append(items, it)
	}
	if len(items) == 0 {
		p.groups.Again(g, now.Add(ReleaseDelay))
	}
	return items
}

// early reports whether a row may go before it is due: it waits for the poison destination, which works.
func (p *parking) early(row adapters.Parked) bool {
	return p.route.poison != nil && row.Metadata[MetaDeath] != "" && p.route.poison.works()
}

// correct writes rows again of which attempts were given back, if they stay in the parking.
func (p *parking) correct(g *parkedgroup.Group, rows []adapters.Parked) {
	for _, row := range rows {
		n := min(g.Credits.Take(row.Seq), row.Attempts)
		if n > 0 && row.Metadata[MetaDeath] == "" { // otherwise it is too late
			if row.Bare || !p.progress.hold(int64(len(row.Payload))+p.route.Overhead()) {
				g.Credits.Give(row.Seq, n) // when it is read again
				return
			}
			row.Was = row.Attempts
			row.Attempts -= n
			p.progress.rows.Put(row)
			p.progress.notify()
		}
	}
}

// itemOf makes an item of a row; nil: there is no memory for it.
func (p *parking) itemOf(row adapters.Parked) *Item {
	it := newItem(p.session, row.Group)
	it.slot, it.seq = row.Slot, row.Seq
	it.restore(&row)
	it.content = &content{id: row.ID, eventType: row.Type, position: row.Position, metadata: row.Metadata, payload: row.Payload, created: row.ParkedAt}
	it.Attempt.Number = row.Attempts + 1
	it.cost = int64(len(row.Payload)) + p.route.Overhead()
	p.restoreDeath(it, row)
	it.saved = it.toSave()
	if !p.route.Memory.Take(it.cost) {
		return nil
	}
	p.repay(it)
	p.progress.begin(it)
	return it
}

// restoreDeath gives an item that comes out of the parking the death of its row. If an operator has redriven the message, which set its
// attempts to 0, it is attempted instead.
func (p *parking) restoreDeath(it *Item, row adapters.Parked) {
	text := row.Metadata[MetaDeath]
	delete(it.content.metadata, MetaDeath)
	if text == "" || row.Attempts == 0 || p.route.poison == nil {
		return
	}
	var d death
	if json.Unmarshal([]byte(text), &d) == nil {
		it.death, it.Attempt.Number = &d, row.Attempts
	}
}
