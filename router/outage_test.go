package router

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/router/internal/health"
	"github.com/outriderhq/outrider/router/internal/logging"
)

// databaseAway is a state store and a source in one database that can be away.
type databaseAway struct {
	*memState
	source *memSource
	mu     sync.Mutex
	err    error
}

func (d *databaseAway) set(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err = err
}

func (d *databaseAway) failure() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

func (d *databaseAway) Renew(ctx context.Context, instance string, lease time.Duration) (map[adapters.LaneRef]adapters.LaneMark, error) {
	if err := d.failure(); err != nil {
		return nil, err
	}
	return d.memState.Renew(ctx, instance, lease)
}

func (d *databaseAway) Instances(ctx context.Context) ([]adapters.Instance, error) {
	if err := d.failure(); err != nil {
		return nil, err
	}
	return d.memState.Instances(ctx)
}

func (d *databaseAway) Settle(ctx context.Context, all []adapters.Settlement) ([]adapters.LaneRef, error) {
	if err := d.failure(); err != nil {
		return nil, err
	}
	return d.memState.Settle(ctx, all)
}

func (d *databaseAway) ParkedQueue(ctx context.Context, ref adapters.LaneRef, group string, after int64, limit int, bytes int64) ([]adapters.Parked, error) {
	if err := d.failure(); err != nil {
		return nil, err
	}
	return d.memState.ParkedQueue(ctx, ref, group, after, limit, bytes)
}

// readAway is the source half.
type readAway struct {
	*memSource
	database *databaseAway
}

func (s readAway) Fetch(ctx context.Context, reads []adapters.Read, take func(int, *adapters.Row) bool) ([]adapters.ReadResult, error) {
	if err := s.database.failure(); err != nil {
		return nil, err
	}
	return s.memSource.Fetch(ctx, reads, take)
}

// lines is a log that counts what is written to it.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// take returns what has been written since the last call.
func (l *lines) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := strings.TrimSpace(l.text.String())
	l.text.Reset()
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// While the database is away the log has each kind of failure once and then a
// summary per minute, whatever is tried meanwhile; what was written before, during
// and after arrives once.
func TestAnOutageOfTheDatabaseIsLoggedOncePerMinute(t *testing.T) {
	inBubble(t, wave, func(r *rig) {
		log := &lines{}
		r.config.Logger = slog.New(slog.NewTextHandler(log, nil))
		database := &databaseAway{memState: r.state, source: r.source}
		// One message is parked and comes due while the database is away.
		r.dest.setFail(failing(&calls{}, only("g0", errInjected)))
		r.start(r.route(func(rt *Route) {
			rt.State, rt.Source = database, readAway{r.source, database}
			rt.Middleware = stack(2*time.Minute, 10)
		}))
		r.fill(20, 5)
		r.until("a group is parked", func() bool { return len(r.parked()) > 0 })
		log.take()

		const minutes = 10
		database.set(errors.New("connection refused"))
		time.Sleep(time.Second)
		first := log.take()
		if len(first) == 0 || len(first) > 6 {
			t.Errorf("%d lines in the first second:\n%s", len(first), strings.Join(first, "\n"))
		}
		time.Sleep(minutes * time.Minute)
		later := log.take()
		if len(later) < minutes || len(later) > 6*(minutes+1) {
			t.Errorf("%d lines in %d minutes:\n%s", len(later), minutes, strings.Join(later, "\n"))
		}
		for _, line := range later[1:] {
			if strings.Contains(line, "cannot read the source") && !strings.Contains(line, "failures=") {
				t.Errorf("a summary without a count: %s", line)
			}
		}
		r.dest.setFail(nil)
		database.set(nil)
		r.await(100)
		if text := strings.Join(log.take(), "\n"); !strings.Contains(text, "the source can be read again") {
			t.Errorf("the end is not logged:\n%s", text)
		}
		r.checkOrdered(20, 5)
		r.stop()
	})
}

// An address is shown with what is wrong now, not with what was wrong at first, and
// with the time of the next probe; the log has the first failure of a message.
func TestAnAddressShowsItsPresentErrorAndTheNextProbe(t *testing.T) {
	inBubble(t, wave, func(r *rig) {
		r.dest.setFail(failing(&calls{}, func(string) error { return outbox.Unavailable(errors.New("connection refused"), 0) }))
		r.start(r.route(nil))
		r.add("g", "a")
		down := func() adapters.AddressStatus {
			s := r.router.Stats()[0]
			if len(s.Down) != 1 {
				return adapters.AddressStatus{}
			}
			return s.Down[0]
		}
		r.until("the address is down", func() bool { return down().Cause == "connection refused" && !down().NextProbe.IsZero() })
		since := down().Since
		r.dest.setFail(failing(&calls{}, func(string) error { return outbox.Unavailable(errors.New("certificate has expired"), 0) }))
		r.until("it shows the present error", func() bool { return down().Cause == "certificate has expired" })
		if d := down(); !d.Since.Equal(since) || d.NextProbe.Before(time.Now()) || d.NextProbe.After(time.Now().Add(health.LongestProbe)) {
			t.Errorf("now %v, shown %+v, down since %v", time.Now(), d, since)
		}
		r.dest.setFail(nil)
		r.await(1)
		r.stop()
	})
}

func TestFirstFailuresAreLoggedUpToABound(t *testing.T) {
	inBubble(t, wave, func(r *rig) {
		log := &lines{}
		r.config.Logger = slog.New(slog.NewTextHandler(log, nil))
		// Each group's first message fails once; the others succeed, so that the address stays up.
		var c calls
		r.dest.setFail(failing(&c, func(id string) error {
			if strings.HasSuffix(id, "-0") && c.of(id) < 2 {
				return errInjected
			}
			return nil
		}))
		began := time.Now()
		r.start(r.route(nil))
		r.fill(40, 3)
		r.await(120)
		minutes := 1 + int(time.Since(began)/time.Minute) // the address may have been down for some
		n := 0
		for _, line := range log.take() {
			if strings.Contains(line, "a message failed and is tried again") {
				n++
				if !strings.Contains(line, "route=orders") || !strings.Contains(line, "group=g") || !strings.Contains(line, "error=") {
					t.Errorf("it does not say which: %s", line)
				}
			}
		}
		if n == 0 || n > minutes*logging.MostFirstFailures {
			t.Errorf("%d first failures are logged in %d minutes", n, minutes)
		}
		r.stop()
	})
}
