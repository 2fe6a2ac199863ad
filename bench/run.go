package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

const (
	// watchInterval is how often the end offsets are asked for: the error of a
	// run's time, and little enough work for the broker.
	watchInterval = 25 * time.Millisecond

	// progressInterval is how often a run that goes on says so.
	progressInterval = 5 * time.Second

	// stallLimit ends a run of which nothing arrives any more.
	stallLimit = time.Minute
)

// bench runs scenarios.
type bench struct {
	servers  *servers
	options  *options
	progress io.Writer
}

func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(b.progress, "bench: "+format+"\n", args...)
}

// run prepares a stage for each entry and runs them in turn, so that what the
// machine does otherwise meets all alike.
func (b *bench) run(ctx context.Context, sc *scenario) (results []result, err error) {
	if err := pin(b.options.cpus); err != nil {
		return nil, err
	}
	var stages []*stage
	defer func() {
		for _, st := range stages {
			err = errors.Join(err, st.close())
		}
	}()
	for _, e := range sc.entries(b.options) {
		begin := time.Now()
		st, err := newStage(ctx, b.servers, e, b.options)
		if err != nil {
			return nil, err
		}
		stages = append(stages, st)
		b.say("%s: %d rows for %s written in %v", sc.name, e.rows, e.peer.name(), time.Since(begin).Round(10*time.Millisecond))
	}
	if err := b.warmUp(ctx, sc, stages); err != nil {
		return nil, err
	}
	samples := make([][]sample, len(stages))
	for i := range b.options.runs {
		for n, st := range stages {
			s, err := b.measure(ctx, st)
			if err != nil {
				return nil, fmt.Errorf("run %d of %s: %w", i+1, st.peer.name(), err)
			}
			samples[n] = append(samples[n], s)
			b.say("%s: run %d/%d: %s: %.0f msgs/s, %.2f us CPU per message, %d MiB; lost 0, duplicates 0, out of order 0",
				sc.name, i+1, b.options.runs, st.peer.name(), s.rate, s.cpu, s.peak>>20)
		}
	}
	for n, st := range stages {
		results = append(results, summarise(st, samples[n]))
	}
	return results, nil
}

// warmUp runs all peers, uncounted, before the first scenario: until the broker's
// JVM has compiled what it runs, its compiler takes more of the processors than
// the broker does, and from whoever happens to run.
func (b *bench) warmUp(ctx context.Context, sc *scenario, stages []*stage) error {
	for i := range b.options.warmup {
		for _, st := range stages {
			s, err := b.measure(ctx, st)
			if err != nil {
				return fmt.Errorf("warm-up of %s: %w", st.peer.name(), err)
			}
			b.say("%s: warm-up %d/%d: %s: %.0f msgs/s", sc.name, i+1, b.options.warmup, st.peer.name(), s.rate)
		}
	}
	b.options.warmup = 0 // once is enough for all scenarios
	return nil
}

// measure lets the peer drain its backlog once, into a new topic, and checks
// what arrived.
func (b *bench) measure(ctx context.Context, st *stage) (s sample, err error) {
	if err := st.reset(ctx); err != nil {
		return s, err
	}
	topic, remove, err := b.servers.createTopic(ctx)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	elapsed, used, err := b.drain(ctx, st, topic)
	if err != nil {
		return s, err
	}
	if err := b.servers.consume(ctx, topic, st.check); err != nil {
		return s, err
	}
	if err := st.check.tally.err(); err != nil {
		return s, fmt.Errorf("the run does not count: %w", err)
	}
	return sample{
		rate: float64(st.rows) / elapsed.Seconds(),
		cpu:  float64(used.cpu.Microseconds()) / float64(st.rows),
		peak: used.peak,
	}, nil
}

// drain runs the relay until the backlog is in the topic.
func (b *bench) drain(ctx context.Context, st *stage, topic string) (time.Duration, usage, error) {
	j := job{Peer: st.peer.name(), Postgres: st.postgres, Brokers: b.servers.brokers, Topic: topic}
	if j.Peer == (embedded{}).name() {
		j.Profile = b.options.profile
	}
	begin := time.Now()
	p, err := start(ctx, j, b.options.cpus)
	if err != nil {
		if p != nil {
			p.kill()
			err = errors.Join(err, p.failure())
		}
		return 0, usage{}, err
	}
	if err := b.watch(ctx, p, topic, st.rows); err != nil {
		p.kill()
		return 0, usage{}, err
	}
	elapsed := time.Since(begin)
	used, err := p.stop()
	return elapsed, used, err
}

// watch returns when the topic has as many records as the backlog has rows.
func (b *bench) watch(ctx context.Context, p *process, topic string, rows int) error {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	before, moved, said := 0, time.Now(), time.Now()
	for {
		_, records, err := b.servers.endOffsets(ctx, topic)
		now := time.Now()
		switch {
		case err != nil:
			return err
		case records >= rows:
			return nil
		case records > before:
			before, moved = records, now
		case now.Sub(moved) > stallLimit:
			p.kill()
			return errors.Join(fmt.Errorf("%d of %d records are in topic %s, and no more came for %v", records, rows, topic, stallLimit), p.failure())
		}
		if now.Sub(said) > progressInterval {
			said = now
			b.say("%s: %d of %d", p.peer, records, rows)
		}
		select {
		case <-tick.C:
		case <-p.done:
			return p.failure()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
