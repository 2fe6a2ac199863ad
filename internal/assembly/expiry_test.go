package assembly

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/sqlite"
	"github.com/outriderhq/outrider/adapters/sqlite/statestore"
	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/router"
)

// expiring is a store whose parked messages are as old as their key says, in days.
type expiring struct {
	mu sync.Mutex // guards all below
	adapters.OperatorStore
	parked   map[string]int
	commands []adapters.ParkedCommand
	fail     error
}

func (e *expiring) old(c adapters.ParkedCommand) (old []string) {
	for id, days := range e.parked {
		if c.Filter.Status == adapters.ParkedDead && c.Action == adapters.ParkedPurge &&
			time.Now().Add(-time.Duration(days)*24*time.Hour).Before(c.Filter.Before) {
			old = append(old, id)
		}
	}
	return old
}

func (e *expiring) CountParked(_ context.Context, c adapters.ParkedCommand) (out []adapters.ParkedCount, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if n := len(e.old(c)); n > 0 {
		out = append(out, adapters.ParkedCount{Route: c.Filter.Route, Status: adapters.ParkedDead, Count: n})
	}
	return out, e.fail
}

func (e *expiring) ChangeParked(_ context.Context, c adapters.ParkedCommand) (adapters.ParkedStep, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.commands = append(e.commands, c)
	old := e.old(c)
	delete(e.parked, old[0])
	return adapters.ParkedStep{Changed: 1, More: len(old) > 1}, nil
}

// Dead messages go when they are old enough, in steps, each counted; a pass that
// finds none writes nothing, and one that fails is made again.
func TestDeadMessagesExpire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &expiring{parked: map[string]int{"old": 31, "older": 400, "young": 29}}
		b := NewBuilder(&config.Config{Parked: &config.Parked{Keep: config.Duration(30 * 24 * time.Hour)}}, Options{Logger: slog.New(slog.DiscardHandler)})
		e, err := b.expiry([]router.Route{{Name: "orders", State: s}, {Name: "stateless"}})
		if err != nil {
			t.Fatal(err)
		}
		s.fail = errors.New("the database is down")
		ctx, cancel := context.WithCancel(t.Context())
		go e.run(ctx)
		time.Sleep(30 * time.Minute)
		s.mu.Lock()
		if len(s.commands) > 0 {
			t.Errorf("removed although nothing could be counted: %v", s.commands)
		}
		s.fail = nil
		s.mu.Unlock()
		time.Sleep(3 * time.Hour)
		cancel()
		synctest.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.parked) != 1 || s.parked["young"] == 0 || len(s.commands) != 2 {
			t.Errorf("left %v after %d steps", s.parked, len(s.commands))
		}
		for _, c := range s.commands {
			if c.Action != adapters.ParkedPurge || c.Filter.Status != adapters.ParkedDead || c.Filter.Route != "orders" || c.By != expiryBy {
				t.Errorf("step %+v", c)
			}
		}
		if n := testutil.ToFloat64(e.removed.WithLabelValues("orders")); n != 2 {
			t.Errorf("counted %v", n)
		}
	})
	if e, err := NewBuilder(&config.Config{}, Options{}).expiry([]router.Route{{Name: "orders"}}); e != nil || err != nil {
		t.Errorf("without parked.keep: %v, %v", e, err)
	}
}

// Of a real store only what is dead and old goes, and the audit says so once.
func TestOnlyOldDeadMessagesExpire(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state.db")
	state, err := statestore.New(t.Context(), statestore.Config{Path: path})
	if err == nil {
		defer func() { _ = state.Close() }()
		err = state.Migrate(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	db, err := sqlite.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	for i, status := range []string{"retrying", "waiting", "held", "dead"} {
		for j, age := range []time.Duration{24 * time.Hour, 31 * 24 * time.Hour} {
			if _, err := db.Exec(`INSERT INTO outrider_parked (route, slot, seq, message_group, status, attempts, last_error, event_id, event_type,
				position, metadata, payload, parked_at) VALUES ('orders', 0, ?, 'g', ?, 1, '', ?, 't', 1, '{}', '', ?)`,
				10*i+j, status, fmt.Sprintf("%s-%d", status, j), time.Now().Add(-age).UnixMicro()); err != nil {
				t.Fatal(err)
			}
		}
	}
	b := NewBuilder(&config.Config{Parked: &config.Parked{Keep: config.Duration(30 * 24 * time.Hour)}}, Options{Logger: slog.New(slog.DiscardHandler)})
	e, err := b.expiry([]router.Route{{Name: "orders", State: state}})
	for range 2 {
		if err == nil {
			err = e.expire(t.Context(), &e.routes[0], time.Now().Add(-e.keep))
		}
	}
	var gone, left, audits int
	if err == nil {
		err = db.QueryRow(`SELECT (SELECT count(*) FROM outrider_parked WHERE event_id = 'dead-1'), (SELECT count(*) FROM outrider_parked),
			(SELECT count(*) FROM outrider_audit WHERE action = 'purge' AND changed = 1)`).Scan(&gone, &left, &audits)
	}
	if err != nil || gone != 0 || left != 7 || audits != 1 {
		t.Errorf("%d are left, the old dead one is there %d times, %d audits: %v", left, gone, audits, err)
	}
}
