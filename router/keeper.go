package router

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outriderhq/outrider/internal/failpoint"
	"github.com/outriderhq/outrider/outbox"
)

// keeper keeps what is ours in one state store: it announces the instance,
// renews its lease, takes lanes that nobody works, and starts and ends sessions
// accordingly.
type keeper struct {
	store    outbox.StateStore
	settler  *settler
	drainFor time.Duration // bounds the wait for what is under way when lanes are given up
	allDown  func() error  // why no route of the process can run; nil: some can
	log      *slog.Logger
	instance string
	lease    time.Duration
	routes   []*ownedRoute

	leaders []*leader

	epoch time.Time     // base of until: monotonic, it goes on while we are frozen
	until atomic.Int64  // nanoseconds after epoch at which the lease ends
	hurry chan struct{} // the lease is to be renewed at once

	renewing, taking, releasing, rereading outage // of renewals, of acquiring lanes, of giving back stray ones, of reading after commands

	neighbours neighbours // only the goroutine that acquires uses it

	mu sync.Mutex // guards quiet
	quiet
	wg    sync.WaitGroup // sessions being ended
	ended atomic.Pointer[ended]
}

// KeeperConfig is what a keeper needs.
type KeeperConfig struct {
	Store          outbox.StateStore
	Log            *slog.Logger
	Instance       string
	Lease          time.Duration
	SettleInterval time.Duration
	DrainTimeout   time.Duration // bounds the wait for what is under way when lanes are given up
	AllDown        func() error  // why no route of the process can run; nil: some can
}

func newKeeper(cfg KeeperConfig) *keeper {
	k := &keeper{store: cfg.Store, log: cfg.Log, instance: cfg.Instance, lease: cfg.Lease, drainFor: cfg.DrainTimeout, allDown: cfg.AllDown,
		settler: newSettler(cfg.Store, cfg.Log, cfg.SettleInterval, cfg.Lease),
		epoch:   time.Now(), hurry: make(chan struct{}, 1), quiet: newQuiet(), neighbours: neighbours{release: bound{usual: cfg.Lease}}}
	k.settler.batches, k.settler.fenced = k.batches, func(b Batch) { k.lose(b.(*session)) } //nolint:forcetypeassert // a keeper's batches are sessions
	return k
}

// MaySend implements [Lease]. It takes the leader's lock as well, where there is one.
func (r *ownedRoute) MaySend() bool {
	return r.keeper.permit() && (r.leader == nil || r.leader.held.Load())
}

// permit reports whether enough of the lease is left to send.
func (k *keeper) permit() bool {
	return int64(time.Since(k.epoch))+int64(k.lease/4) < k.until.Load()
}

// StillOwned implements [Lease]. It is a renewal for its answer only: what may be
// sent until when is for the heartbeat to say, which first ends the sessions of lanes
// that are lost. Like there, the query is not cancelled on the way.
func (r *ownedRoute) StillOwned(ctx context.Context, s *session) (bool, error) {
	k := r.keeper
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), k.lease/2)
	defer cancel()
	owned, err := k.store.Renew(ctx, k.instance, k.lease)
	if err != nil {
		return false, err
	}
	for _, ref := range s.Lane().rows() {
		if _, ours := owned[ref]; !ours {
			return false, nil
		}
	}
	return !s.Lost(), nil
}

// join announces the instance.
func (k *keeper) join(ctx context.Context) error {
	if err := k.store.Migrate(ctx); err != nil {
		return fmt.Errorf("prepare the state tables: %w", err)
	}
	began := time.Since(k.epoch)
	if err := k.store.Join(ctx, k.instance, k.lease); err != nil {
		return fmt.Errorf("join as instance %s: %w", k.instance, err)
	}
	k.until.Store(int64(began + k.lease))
	return nil
}

// keepLease renews the lease until ctx ends, which is after the drain.
func (k *keeper) keepLease(ctx context.Context) {
	renew := every(k.lease / 4)
	defer renew.stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-renew.C:
		case <-k.hurry:
		}
		// A renewal is never cancelled on the way: that could cost the
		// connection which shows that we live.
		k.renew(context.WithoutCancel(ctx))
	}
}

// renew extends the lease, ends the sessions of lanes that are no longer ours
// and lets sessions notice operators' commands. Lost lanes are stopped before the
// others may send again: after a freeze nothing may be sent for them.
func (k *keeper) renew(ctx context.Context) {
	began := time.Since(k.epoch)
	ctx, cancel := context.WithTimeout(ctx, k.lease/2)
	defer cancel()
	// Lanes that are taken meanwhile are not in the answer, and not lost.
	before := k.working()
	durable := make([][]int64, len(before)) // before the store is read, which may be before a settle
	for i, s := range before {
		durable[i] = s.confirmed()
	}
	owned, err := k.store.Renew(ctx, k.instance, k.lease)
	if err != nil {
		k.renewing.fail(k.log, slog.LevelWarn, "the lease cannot be renewed, trying again", err,
			"left", (time.Duration(k.until.Load()) - time.Since(k.epoch)).Round(time.Millisecond))
		return
	}
	k.renewing.end(k.log, "the lease is renewed again")
	k.noteUnclaimed(owned)
	commanded := map[*ownedRoute]bool{}
	for i, s := range before {
		for j, str := range s.Streams() {
			mark, ours := owned[outbox.LaneRef{Route: s.Route().Name, Slot: str.slot}]
			if !ours || mark.Epoch != str.epoch || mark.Revision < durable[i][j] {
				k.lose(s)
				break
			}
			if k.notice(s, str, mark.Commands) {
				commanded[k.of(s.Route())] = true
			}
		}
	}
	k.until.Store(int64(began + k.lease))
	for _, s := range before {
		s.Kick() // it may have been refused while little of the lease was left
	}
	for rt := range commanded {
		k.obey(rt)
	}
}

// notice makes a session read its parked groups anew after a command; it tells
// whether there was one.
func (k *keeper) notice(s *session, str *stream, commands int64) bool {
	known := str.commands
	str.commands = commands
	if known == commands {
		return false
	}
	k.background(func() { // not on the heartbeat: it takes as long as there is to settle
		for s.Context().Err() == nil {
			ctx, cancel := context.WithTimeout(s.Context(), k.lease) // the lane may stand still meanwhile
			err := s.reload(ctx)
			cancel()
			if err == nil || s.Context().Err() != nil {
				k.rereading.end(k.log, "")
				return
			}
			k.rereading.fail(k.log, slog.LevelWarn, "cannot read the parked groups after a command, trying again", err, "lane", s.Lane().name)
			pause := after(shortDelay)
			select {
			case <-pause.C:
			case <-s.Context().Done():
			}
			pause.stop()
		}
	})
	return true
}

// Lost implements [Lease].
func (r *ownedRoute) Lost(s *session) { r.keeper.lose(s) }

// lose ends a session of which another instance took a cursor row, or a cursor row
// of which is not as it was settled, because the state store was restored.
func (k *keeper) lose(s *session) {
	if !s.Lose() {
		return
	}
	k.log.Warn("the lane is no longer ours: another instance took it, an operator moved its cursor, or the state store was restored; "+
		"messages in flight are released", "lane", s.Lane().name)
	k.background(func() {
		ctx, cancel := context.WithTimeout(context.Background(), k.drainFor)
		defer cancel()
		s.stop(ctx)
	})
}

// background runs f beside everything else, and a drain waits for it. While one
// is under way nothing is begun: it ends all sessions itself.
func (k *keeper) background(f func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.draining {
		k.wg.Go(f)
	}
}

// ended are the sessions of a draining router: they are no longer in their
// lanes, but what they concluded is still to be written.
type ended struct{ sessions []*session }

// leave releases what is ours, so that another instance goes on at once.
func (k *keeper) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), k.lease)
	defer cancel()
	failpoint.Hit(failpoint.Release)
	if err := k.store.Leave(ctx, k.instance); err != nil {
		k.log.Warn("the lanes could not be released; another instance takes them when the lease ends",
			"lease", k.lease, "error", err)
	}
	failpoint.Hit(failpoint.Released)
	for _, l := range k.leaders {
		l.resign() // last: who takes the lock finds the lanes released
	}
}
