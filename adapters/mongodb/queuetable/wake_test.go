package queuetable

import (
	"slices"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/adaptertest"
)

// notified opens a queue that change streams wake.
func (e *env) notified(t *testing.T) *Queue {
	t.Helper()
	q, err := New(Config{Connection: e.at, Tables: e.tables, Layout: e.layout, Notify: true})
	must(t, err)
	t.Cleanup(func() { must(t, q.Close()) })
	return q
}

// A sleeping reader is woken by a document of either collection, once for each sleep; one that is awake is not.
func TestChangeStreamsWakeASleepingReader(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	sent := &commands{}
	e.at.Monitor = sent.monitor()
	q := e.notified(t)
	must(t, q.Check(t.Context()))
	for i, of := range e.tables {
		if got := q.Sleep(t.Context()); got != adapters.Armed {
			t.Fatalf("sleep %d: %v, want armed", i, got)
		}
		if got := q.Sleep(t.Context()); got != adapters.Armed {
			t.Errorf("a second call of a reader that sleeps: %v", got)
		}
		select {
		case <-q.Wake():
			t.Fatal("woken by nothing")
		default:
		}
		e.insert(adaptertest.QueueRow{Table: of.Name, Key: of.Name, Group: "g", Payload: "{}", CreatedAt: time.UnixMilli(1)})
		<-q.Wake() // a reader that is not woken waits for the limit of the tests
	}
	if got := q.Sleep(t.Context()); got != adapters.Armed {
		t.Fatalf("the last sleep: %v", got)
	}
	q.Awake()
	e.insert(adaptertest.QueueRow{Table: e.tables[0].Name, Key: "last", Group: "g", Payload: "{}", CreatedAt: time.UnixMilli(2)})
	q.waker.done.Wait()
	select {
	case <-q.Wake():
		t.Error("an awake reader was woken")
	default:
	}
	// The role of `outrider init --print` may read these collections, and nothing else of the database.
	all, _ := sent.take()
	var of []string
	for _, command := range all {
		if name, ok := command.Lookup("aggregate").StringValueOK(); ok {
			of = append(of, name)
		} else if command.Lookup("aggregate").Value != nil {
			of = append(of, "the whole database")
		}
	}
	slices.Sort(of)
	if of = slices.Compact(of); !slices.Equal(of, []string{"outbox_dispatch_jobs", "outbox_events"}) {
		t.Errorf("streams were opened of %v", of)
	}
}
