package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/outriderhq/outrider/bench/measure"
	"github.com/outriderhq/outrider/bench/peers"
	"github.com/outriderhq/outrider/internal/testenv/provision"
	"github.com/outriderhq/outrider/internal/testenv/server"
)

// How the scenario faults writes: few enough messages that every relay keeps up.
const (
	faultRate   = 200
	faultGroups = 50
	faultPer    = 5 // messages of a transaction

	// writerName is the application_name of the writers, whose connections are left alone.
	writerName = "outrider-bench-writer"

	// restartAfter is how long a supervisor waits before it starts a relay again: systemd's default.
	restartAfter = 100 * time.Millisecond
)

// fault is what happens while messages are written.
type fault struct {
	name string
	do   func(ctx context.Context, f *faulted) error
	own  bool // the broker is killed: it is one of the fault's own
}

// faulted is what a fault is injected into.
type faulted struct {
	*stage
	relay  *supervised
	broker *server.Kafka // nil unless the fault wants its own
	span   time.Duration // of what has a beginning and an end
}

var faults = []fault{
	{name: "the relay is killed with SIGKILL, and started again", do: func(_ context.Context, f *faulted) error {
		return f.relay.process.Load().cmd.Process.Kill()
	}},
	{name: "its connections to PostgreSQL are ended", do: func(ctx context.Context, f *faulted) error {
		_, err := f.db.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name <> $1`, writerName)
		return err
	}},
	{name: "the broker is killed with SIGKILL, and started again", own: true, do: func(ctx context.Context, f *faulted) error {
		return errors.Join(f.broker.Kill(), f.broker.Start(ctx))
	}},
	{name: "a message that the broker refuses: 2 MiB", do: func(ctx context.Context, f *faulted) error {
		_, err := f.db.Exec(ctx, f.flow.Insert, []string{uuid.NewString()}, []string{"refused"}, []string{fmt.Sprintf(`{"refused": %q}`, strings.Repeat("x", 2<<20))})
		return err
	}},
	{name: "a transaction of another application stays open", do: func(ctx context.Context, f *faulted) error {
		return pgx.BeginFunc(ctx, f.db, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "SELECT pg_current_xact_id()"); err != nil {
				return err
			}
			return measure.Until(ctx, time.Now().Add(f.span))
		})
	}},
}

// Names of what the scenario faults counts.
const (
	undelivered = "not delivered (messages)"
	duplicated  = "duplicates (messages)"
	inverted    = "out of order (messages)"
	longestWait = "longest wait (s)"
	restarted   = "restarts"
)

// faultScenario lets the same faults happen to relays that deliver the same messages.
var faultScenario = &scenario{
	name:  "faults",
	about: "What the same faults do to relays that deliver the same messages into Kafka.",
	title: func(o *options) string {
		return fmt.Sprintf("Faults: %d messages per second of %d bytes of JSON in %d groups, in transactions of %d, for %v; after %v something happens. "+
			"A relay whose process ends is started again", faultRate, o.payload, faultGroups, faultPer, 3*o.duration, o.duration)
	},
	peers: []peers.Peer{peers.ToKafka, peers.Stock, peers.LoneDebezium},
	entries: func(o *options) (out []entry) {
		rows := max(int(3*faultRate*o.duration.Seconds()), 1)
		for _, f := range faults {
			for _, p := range []struct {
				peer   peers.Peer
				insert string
			}{{peers.ToKafka, ownRows}, {peers.Stock, peers.StockRows}, {peers.LoneDebezium, peers.DebeziumRows}} {
				out = append(out, entry{peer: p.peer, sink: measure.Tap{}, rows: rows, groups: faultGroups, with: f.name,
					flow: &measure.FlowSpec{Rate: faultRate, Per: faultPer, Insert: p.insert}})
			}
		}
		return out
	},
	measure: (*bench).measureFault,
	columns: columns{{"fault", withColumn.cell}, peerColumn, {"messages", rowsColumn.cell},
		figureColumn("not delivered", undelivered, "%.0f"), figureColumn("duplicates", duplicated, "%.0f"), figureColumn("out of order", inverted, "%.0f"),
		figureColumn("longest wait s", longestWait, "%.1f"), figureColumn("restarts", restarted, "%.0f"),
	},
	remarks: func([]result) []string {
		return []string{
			fmt.Sprintf("Not delivered: committed, and not in Kafka %v after the last one was written and the fault was over.", stallLimit),
			"Longest wait: from the commit of a message to its arrival, of those that arrived; it includes the time to start again.",
			"Out of order: for the first time after a later message of its group; duplicates are counted as such alone.",
		}
	},
	once: true,
}

// measureFault writes messages while the fault happens, and counts what arrives.
func (b *bench) measureFault(ctx context.Context, st *stage) (s sample, err error) {
	what := faults[slices.IndexFunc(faults, func(f fault) bool { return f.name == st.with })]
	target := &faulted{stage: st, span: b.options.duration}
	servers := b.servers
	if what.own {
		if target.broker, servers, err = ownKafka(ctx, b.say); err != nil {
			return s, err
		}
		defer func() {
			servers.Close()
			err = errors.Join(err, target.broker.Close())
		}()
	}
	f := measure.NewFlow(*st.flow, st.rows, st.groups, st.payload)
	to, err := measure.Tap{Fails: what.own}.Pour(ctx, servers, f)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	target.relay = b.supervise(ctx, st, to)
	defer func() { err = errors.Join(err, target.relay.stop()) }()
	if err := target.delivers(ctx, f); err != nil {
		return s, err
	}
	if err := target.happens(ctx, f, what.do); err != nil {
		return s, err
	}
	arrived := func() (bool, error) { n, _ := f.Received(); return n >= st.rows, nil }
	if err := measure.Poll(ctx, stallLimit, "not all messages have arrived", arrived); err != nil && ctx.Err() != nil {
		return s, err
	}
	came := f.Outcome()
	s.figure(undelivered, float64(came.Lost))
	s.figure(duplicated, float64(came.Duplicates))
	s.figure(inverted, float64(came.OutOfOrder))
	s.figure(longestWait, f.Delays().Quantile(1).Seconds())
	s.figure(restarted, float64(target.relay.restarts.Load()))
	return s, nil
}

// ownKafka starts a broker that may be killed.
func ownKafka(ctx context.Context, say func(format string, args ...any)) (*server.Kafka, *measure.Servers, error) {
	found, err := provision.Host{Install: true, Say: say}.Kafka(ctx)
	if err != nil {
		return nil, nil, err
	}
	broker, err := server.StartKafka(ctx, server.KafkaOptions{Java: found.Java, Jars: found.Jars, Archive: found.Archive, QuickRestart: true})
	if err != nil {
		return nil, nil, err
	}
	servers, err := measure.ConnectTo(broker.Brokers())
	if err != nil {
		return nil, nil, errors.Join(err, broker.Close())
	}
	return broker, servers, nil
}

// delivers waits until the relay delivers: its start does not count. Debezium sees no rows from before its slot.
func (f *faulted) delivers(ctx context.Context, flow *measure.Flow) error {
	return measure.Poll(ctx, stallLimit, "the relay delivers nothing", func() (bool, error) {
		_, err := f.db.Exec(ctx, f.flow.Insert, []string{uuid.NewString()}, []string{"first"}, []string{`{"first": true}`})
		return flow.Outcome().Records > 0, errors.Join(err, f.relay.failure())
	})
}

// happens writes the messages, and has the fault happen after a third of the time.
func (f *faulted) happens(ctx context.Context, flow *measure.Flow, do func(context.Context, *faulted) error) error {
	named, err := url.Parse(f.postgres)
	if err != nil {
		return err
	}
	query := named.Query()
	query.Set("application_name", writerName)
	named.RawQuery = query.Encode()
	g, ctx := errgroup.WithContext(ctx)
	flow.Begin()
	g.Go(func() error { return flow.Write(ctx, named.String()) })
	g.Go(func() error {
		if err := measure.Until(ctx, time.Now().Add(f.span)); err != nil {
			return err
		}
		return do(ctx, f)
	})
	return g.Wait()
}

// supervised is a relay that is started again whenever its process ends.
type supervised struct {
	process  atomic.Pointer[process]
	restarts atomic.Int64
	failed   atomic.Pointer[error]
	cancel   context.CancelFunc
	done     chan struct{}
}

// supervise starts the stage's relay. The caller must stop it.
func (b *bench) supervise(ctx context.Context, st *stage, to measure.Receiver) *supervised {
	s := &supervised{done: make(chan struct{})}
	ctx, s.cancel = context.WithCancel(ctx)
	go func() {
		defer close(s.done)
		for {
			p, err := b.launch(context.WithoutCancel(ctx), st, to)
			if err != nil {
				s.failed.Store(&err)
				return
			}
			s.process.Store(p)
			select {
			case <-ctx.Done():
				p.kill()
				return
			case <-p.done:
				s.restarts.Add(1)
			}
			if measure.Until(ctx, time.Now().Add(restartAfter)) != nil {
				return
			}
		}
	}()
	return s
}

// failure is why the relay could not be started.
func (s *supervised) failure() error {
	if err := s.failed.Load(); err != nil {
		return *err
	}
	return nil
}

func (s *supervised) stop() error {
	s.cancel()
	<-s.done
	return s.failure()
}
