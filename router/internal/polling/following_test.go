package polling

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outriderhq/outrider/adapters"
)

// commits is a source whose every commit wakes its reader.
type commits struct {
	woken    chan struct{}
	follows  atomic.Bool
	notifies atomic.Bool // publishers can wake its reader
	sleeps   atomic.Bool // they are to
}

func (c *commits) Wake() <-chan struct{} { return c.woken }
func (c *commits) Awake()                { c.sleeps.Store(false) }
func (c *commits) Follows() bool         { return c.follows.Load() }

func (c *commits) Sleep(context.Context) adapters.Sleep {
	if !c.notifies.Load() {
		return adapters.Unsupported
	}
	c.sleeps.Store(true)
	return adapters.Armed
}

func (c *commits) commit() {
	select {
	case c.woken <- struct{}{}:
	default:
	}
}

// reader polls as readers and claimers do, until ctx ends.
type reader struct {
	polls atomic.Int64
	found []time.Duration // how long each row had been visible
	rows  chan time.Time  // those that are visible
}

func (r *reader) run(ctx context.Context, b *Backoff) {
	b.Begin()
	for ctx.Err() == nil {
		b.Poll()
		r.polls.Add(1)
		var pause time.Duration
		select {
		case at := <-r.rows:
			r.found = append(r.found, time.Since(at))
			b.Found()
			pause = time.Millisecond / 4
		default:
			pause = b.Pause(ctx)
		}
		select {
		case <-time.After(pause):
		case <-b.Wakes():
			b.Woken()
		case <-ctx.Done():
		}
	}
}

func following(t *testing.T, during func(c *commits, r *reader)) *reader {
	t.Helper()
	c, r := &commits{woken: make(chan struct{}, 1)}, &reader{rows: make(chan time.Time, 100)}
	c.follows.Store(true)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.run(ctx, NewBackoff(Config{Batch: 1000, Min: time.Millisecond, After: 3, Factor: 2, Max: time.Second}, c))
	}()
	time.Sleep(time.Minute)
	r.polls.Store(0)
	during(c, r)
	cancel()
	<-done
	return r
}

// A row that becomes visible up to 3 ms after its commit has woken the reader is found within as long again, however rare rows are.
func TestAFollowerFindsRowsThatFollowTheirCommit(t *testing.T) {
	t.Parallel()
	for _, late := range []time.Duration{0, 30 * time.Microsecond, 300 * time.Microsecond, 3 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			r := following(t, func(c *commits, r *reader) {
				for range 20 {
					time.Sleep(3 * time.Second)
					c.commit()
					time.Sleep(late)
					r.rows <- time.Now()
					time.Sleep(5 * time.Millisecond)
					c.commit() // what the relay has written of it
				}
			})
			if len(r.found) != 20 {
				t.Fatalf("%d rows found, want 20", len(r.found))
			}
			for _, waited := range r.found {
				if waited > late+2*firstLook {
					t.Errorf("a row that was visible %v after its commit was found after another %v", late, waited)
				}
			}
		})
	}
}

// G9: commits of others cost a bounded number of polls, and a row among them does not wait for longer than that takes.
func TestG9_CommitsOfOthersCostFewPolls(t *testing.T) {
	t.Parallel()
	const second = 1000
	for name, tc := range map[string]struct {
		every time.Duration
		most  int64 // polls in a minute
	}{
		"idle":       {time.Hour, 80},
		"a second":   {time.Second, 4 * 60},
		"every ms":   {time.Millisecond, 42 * 60},
		"every 40ms": {40 * time.Millisecond, 2*25*60 + 80},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := following(t, func(c *commits, r *reader) {
					for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(min(tc.every, time.Minute)) {
						c.commit()
					}
					synctest.Wait()
					if polls := r.polls.Load(); polls > tc.most {
						t.Errorf("%d polls in a minute, want %d at most", polls, tc.most)
					}
					for range second {
						if tc.every < time.Minute {
							c.commit()
							time.Sleep(min(tc.every, 50*time.Millisecond))
						}
					}
					r.rows <- time.Now()
					c.commit()
					time.Sleep(2 * vainPause)
				})
				if len(r.found) != 1 || r.found[0] > vainPause {
					t.Errorf("a row among them was found after %v, want %v at most", r.found, vainPause)
				}
			})
		})
	}
}

// A reader whose source follows no longer polls as before.
func TestAReaderThatFollowsNoLongerPolls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := following(t, func(c *commits, _ *reader) {
			c.follows.Store(false)
			time.Sleep(time.Minute)
		})
		if n := r.polls.Load(); n < 59 || n > 62 {
			t.Errorf("%d polls in a minute, want 60", n)
		}
	})
}

// A reader that publishers were to wake, and that follows commits instead, tells them that it is awake.
func TestAReaderThatBeginsToFollowIsNotNotified(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		following(t, func(c *commits, _ *reader) {
			c.follows.Store(false)
			c.notifies.Store(true)
			time.Sleep(time.Minute)
			if !c.sleeps.Load() {
				t.Fatal("the reader does not sleep")
			}
			c.follows.Store(true)
			c.commit()
			synctest.Wait()
			if c.sleeps.Load() {
				t.Error("publishers still notify a reader that follows commits")
			}
		})
	})
}
