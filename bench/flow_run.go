package main

import (
	"context"
	"fmt"
	"time"

	"github.com/outriderhq/outrider/bench/measure"

	"golang.org/x/sync/errgroup"
)

// The statements that write the messages of a transaction of a [measure.Flow].
const (
	ownRows = `INSERT INTO outrider_outbox (id, type, message_group, payload, occurred_at)
		SELECT id, 'order.created', name, payload::json, now() FROM unnest($1::text[], $2::text[], $3::text[]) AS m(id, name, payload)`
	itemRows = `INSERT INTO outbox_events (id, type, message_group, payload, status, created_at)
		SELECT id, 'EVENT', name, payload, 'PENDING', localtimestamp FROM unnest($1::text[], $2::text[], $3::text[]) AS m(id, name, payload)`
)

// emptying is a peer whose tables can be emptied.
type emptying interface {
	// Empty is a statement that deletes all rows and the state of the relay.
	Empty() string
}

// openFlow empties the stage's tables and opens a new receiver.
func (b *bench) openFlow(ctx context.Context, st *stage) (*measure.Flow, measure.Receiver, error) {
	sink, ok := st.sink.(measure.FlowSink)
	tables, can := st.peer.(emptying)
	if !ok || !can {
		return nil, nil, fmt.Errorf("%s cannot be measured while messages are written", st)
	}
	if _, err := st.db.Exec(ctx, tables.Empty()); err != nil {
		return nil, nil, err
	}
	f := measure.NewFlow(*st.flow, st.rows, st.groups, st.payload)
	to, err := sink.Pour(ctx, b.servers, f)
	return f, to, err
}

// sampling calls take at intervals while a flow is written.
type sampling struct {
	every time.Duration // 0: never
	take  func(ctx context.Context, at time.Duration) error
}

// through writes the flow, takes samples meanwhile, and waits for so many messages.
// It returns the time from the first commit to the last arrival.
func (b *bench) through(ctx context.Context, st *stage, p *process, f *measure.Flow, to measure.Receiver, rows int, l sampling) (time.Duration, error) {
	g, writing := errgroup.WithContext(ctx)
	begin := time.Now()
	f.Begin()
	written := make(chan struct{})
	g.Go(func() error {
		defer close(written)
		return f.Write(writing, st.postgres)
	})
	if l.every > 0 {
		g.Go(func() error { return l.until(writing, begin, written) })
	}
	if err := g.Wait(); err != nil {
		return 0, err
	}
	last, err := b.watch(ctx, p, to, rows)
	return last.Sub(begin), err
}

// until takes samples until done is closed.
func (l sampling) until(ctx context.Context, begin time.Time, done <-chan struct{}) error {
	tick := time.NewTicker(l.every)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
			if err := l.take(ctx, time.Since(begin)); err != nil {
				return err
			}
		}
	}
}

// runFlow launches the relay, writes the flow and checks what arrived.
func (b *bench) runFlow(ctx context.Context, st *stage, f *measure.Flow, to measure.Receiver, l sampling) (s sample, err error) {
	p, err := b.launch(ctx, st, to)
	if err != nil {
		return s, err
	}
	elapsed, err := b.through(ctx, st, p, f, to, st.rows, l)
	if err != nil {
		p.kill()
		return s, err
	}
	used, err := p.stop()
	if err != nil {
		return s, err
	}
	if err := f.Verify(); err != nil {
		return s, fmt.Errorf("the run does not count: %w", err)
	}
	s = newSample(st.rows, elapsed, used)
	s.timed(f.Delays())
	return s, nil
}
