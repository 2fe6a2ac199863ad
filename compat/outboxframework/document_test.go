package outboxframework_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/outriderhq/outrider/compat/outboxframework"
	"github.com/outriderhq/outrider/handlers/listeners"
	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/outbox"
)

// often has a poller that gets everything at once.
func often() *outboxframework.Settings {
	return outboxframework.NewSettings().SetPollerInterval(5 * time.Millisecond).SetPollerSkipRecent(0).SetRetryBaseDelay(time.Millisecond)
}

// 9.3: last_error has 4,000 characters, not bytes, and no half of one.
func TestOutboxFrameworkCutsErrorsAt4000Characters(t *testing.T) {
	t.Parallel()
	a := newApp(t, testenv.Postgres(t), often().SetRetryMaxAttempts(1))
	listeners.Listen(a.registry, outbox.Type[outbox.Envelope]("USER_CREATED"), func(context.Context, outbox.Envelope) error {
		return errors.New(strings.Repeat("ü", 5000))
	})
	a.start()
	e := a.publish("USER_CREATED", "1")
	a.await(e.ID(), "3 0")
	var text string
	must(t, a.pool.QueryRow(t.Context(), "SELECT last_error FROM outbox_event WHERE event_id = $1", e.ID()).Scan(&text))
	if n := utf8.RuneCountInString(text); n != 4000 || !utf8.ValidString(text) || strings.Count(text, "ü") < 3900 {
		t.Errorf("last_error has %d characters: %.60s ... %s", n, text, text[len(text)-20:])
	}
}

// 11.3, 16.2: a row that cannot be decoded is DEAD without an attempt, and the log has an ERROR.
func TestOutboxFrameworkRowsThatCannotBeDecodedAreDead(t *testing.T) {
	t.Parallel()
	a := newApp(t, testenv.Postgres(t), often())
	var calls atomic.Int64
	listeners.Listen(a.registry, outbox.Type[outbox.Envelope]("USER_CREATED"), func(context.Context, outbox.Envelope) error { calls.Add(1); return nil })
	a.start()
	_, err := a.pool.Exec(t.Context(), `INSERT INTO outbox_event (event_id, event_type, payload, headers, status, available_at, created_at)
		VALUES ('odd', 'USER_CREATED', '{}', '[1, 2]', 0, now(), now())`)
	must(t, err)
	a.await("odd", "3 0")
	if calls.Load() != 0 || a.log.count("level=ERROR") != 1 {
		t.Errorf("%d calls of the listener, and %d errors in the log; want 0 and 1", calls.Load(), a.log.count("level=ERROR"))
	}
}

// counted is a payload that counts how often it becomes JSON, in a form that no encoder chooses.
type counted struct{ times *atomic.Int64 }

func (c counted) MarshalJSON() ([]byte, error) {
	c.times.Add(1)
	return []byte(`{"b":1.0,"a":"\u00fc","c":1e2}`), nil
}

// 6.2: a payload is serialised once. The row and both ways to a listener, from memory and from the table, have the bytes of the envelope.
func TestOutboxFrameworkSerialisesAPayloadOnce(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t)
	var times atomic.Int64
	e, err := outbox.New("USER_CREATED").JSON(counted{&times}).Aggregate(string(userAggregate), "1").Build()
	must(t, err)
	got := make(chan outbox.Envelope, 2)
	// delivered has a program deliver the event.
	delivered := func(s *outboxframework.Settings, publish func(*app)) {
		a := newApp(t, url, s)
		for _, of := range []outbox.Type[outbox.Envelope]{"USER_CREATED", listeners.Any} {
			listeners.Listen(a.registry, of, func(_ context.Context, e outbox.Envelope) error {
				if e.Type() == "USER_CREATED" {
					got <- e
				}
				return nil
			})
		}
		a.start()
		publish(a)
		a.await(e.ID(), "1 0")
		for range 2 {
			if g := <-got; !bytes.Equal(g.Payload(), e.Payload()) {
				t.Errorf("a listener got %s, want %s", g.Payload(), e.Payload())
			}
		}
		a.stop()
		var row string // which waits again
		must(t, a.pool.QueryRow(t.Context(), "UPDATE outbox_event SET status = 0 WHERE event_id = $1 RETURNING payload::text", e.ID()).Scan(&row))
		if row != string(e.Payload()) {
			t.Errorf("the row has %s, want %s", row, e.Payload())
		}
	}
	delivered(rarely(), func(a *app) { // whose poller finds nothing
		must(t, a.inTx(func(ctx context.Context) error { return a.client.Publish(ctx, nil, e) }))
	})
	delivered(often(), func(*app) {})
	if n := times.Load(); n != 1 {
		t.Errorf("the payload was serialised %d times, want once", n)
	}
}

// 16.2: what keeps the poller from polling is an ERROR, and an INFO says that it is over. How often is said by
// TestWhatAQueueCannotDoIsAnErrorInTheLog of package router.
func TestOutboxFrameworkLogsErrorsOfThePollerAsErrors(t *testing.T) {
	t.Parallel()
	a := newApp(t, testenv.Postgres(t), often())
	a.start()
	_, err := a.pool.Exec(t.Context(), "ALTER TABLE outbox_event RENAME TO away")
	must(t, err)
	a.awaitLog("cannot claim rows")
	_, err = a.pool.Exec(t.Context(), "ALTER TABLE away RENAME TO outbox_event")
	must(t, err)
	a.awaitLog("can be claimed again")
	a.await(a.publish("USER_CREATED", "1").ID(), "1 0")
	if failed, errors, over := a.log.count("cannot claim rows"), a.log.count(`level=ERROR msg="cannot claim rows`), a.log.count(`level=INFO msg="rows of the queue's table`); failed != errors || over != 1 {
		t.Errorf("the log has %d lines of failed polls, %d of them errors, and %d of their end; want errors, and one end", failed, errors, over)
	}
}

// 10.4, 11.3, 14.3: workers are busy until their listeners return. With all of them busy no more is claimed than the cold queue has room for, and
// the rest stays NEW until there is room.
func TestOutboxFrameworkWorkersAndColdQueueAreBounded(t *testing.T) {
	t.Parallel()
	const workers, room, events = 2, 3, 12
	a := newApp(t, testenv.Postgres(t), often().SetDispatcherWorkers(workers).SetColdQueueCapacity(room).SetHotQueueCapacity(1))
	var now, most atomic.Int64
	called, release := make(chan string, events), make(chan struct{})
	listeners.Listen(a.registry, outbox.Type[outbox.Envelope]("USER_CREATED"), func(_ context.Context, e outbox.Envelope) error {
		if n := now.Add(1); n > most.Load() {
			most.Store(n)
		}
		defer now.Add(-1)
		called <- e.ID()
		<-release
		return nil
	})
	a.start()
	ids := map[string]bool{}
	for i := range events {
		ids[a.publish("USER_CREATED", string(rune('a'+i))).ID()] = true
	}
	for range workers {
		<-called
	}
	if n := a.relay.Stats()[0].Queue.Claimed; n > room {
		t.Errorf("%d rows are in memory, want %d at most", n, room)
	}
	for id := range ids {
		if got := a.status(id); got != "0 0" {
			t.Errorf("the row of %s is %q while all workers are busy, want NEW", id, got)
		}
	}
	close(release)
	for id := range ids {
		a.await(id, "1 0")
	}
	if most.Load() > workers {
		t.Errorf("%d events were with listeners at once, want %d at most", most.Load(), workers)
	}
}
