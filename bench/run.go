package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/outriderhq/outrider/bench/measure"
	"github.com/outriderhq/outrider/bench/peers"
)

const (
	// progressInterval is the interval of progress messages during a run.
	progressInterval = 5 * time.Second

	// stallLimit ends a run in which no more messages arrive.
	stallLimit = time.Minute
)

// bench runs scenarios.
type bench struct {
	servers  *measure.Servers
	options  *options
	progress io.Writer
	builds   []build // that are compared; none: this program
	warm     bool    // the broker has been warmed up

	versions map[string]time.Duration // that `outrider version` takes, by build, once measured

	provided map[string]error // by the names of demanding peers
}

func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(b.progress, "bench: "+format+"\n", args...)
}

// run prepares a stage for each entry and build, and interleaves their runs, so that other work
// of the machine affects all alike. It also returns why peers are missing.
func (b *bench) run(ctx context.Context, sc *scenario) (results []result, missing []string, err error) {
	if err := measure.Pin(b.options.cpus); err != nil {
		return nil, nil, err
	}
	builds := b.builds
	runs := b.options.runs
	if len(builds) == 0 {
		builds = []build{{}}
		if sc.once {
			runs = 1
		}
	}
	entries, missing := b.available(ctx, sc.selected(b.options))
	var stages []*stage
	defer func() {
		for _, st := range stages {
			err = errors.Join(err, st.close())
		}
	}()
	for _, e := range entries {
		for _, of := range builds {
			begin := time.Now()
			st, err := newStage(ctx, b.servers, sc, e, of, b.options)
			if err != nil {
				return nil, nil, err
			}
			stages = append(stages, st)
			b.say("%s: %s prepared in %v", sc.name, st, time.Since(begin).Round(10*time.Millisecond))
		}
	}
	if err := b.warmUp(ctx, sc, stages); err != nil {
		return nil, nil, err
	}
	samples := make([][]sample, len(stages))
	for i := range runs {
		for _, n := range turns(len(stages), len(builds), i) {
			st := stages[n]
			s, err := sc.measure(b, ctx, st)
			if err != nil {
				return nil, nil, fmt.Errorf("run %d of %s: %w", i+1, st, err)
			}
			samples[n] = append(samples[n], s)
			b.say("%s: run %d/%d: %s: %s", sc.name, i+1, runs, st, s)
		}
	}
	for n, st := range stages {
		results = append(results, summarise(st, samples[n]))
	}
	return results, missing, nil
}

// turns returns the order of a run's stages. The builds of an entry, which are neighbours, swap places in every
// other run: the first one may warm something for the second.
func turns(stages, builds, run int) []int {
	order := make([]int, stages)
	for n := range order {
		first := n - n%builds
		order[n] = n
		if run%2 == 1 {
			order[n] = first + builds - 1 - n%builds
		}
	}
	return order
}

// demanding is a peer that needs more than any PostgreSQL and Kafka.
type demanding interface {
	// Provide checks or installs the peer's needs, which may take minutes the first
	// time. After an error the run continues without the peer.
	Provide(ctx context.Context, s *measure.Servers, say func(format string, args ...any)) error
}

// available leaves out the entries of peers that cannot run here, and says why.
func (b *bench) available(ctx context.Context, entries []entry) (able []entry, missing []string) {
	if b.provided == nil {
		b.provided = map[string]error{}
	}
	for _, e := range entries {
		if d, ok := e.peer.(demanding); ok {
			name := e.peer.Name()
			if _, asked := b.provided[name]; !asked {
				b.provided[name] = d.Provide(ctx, b.servers, b.say)
			}
			if err := b.provided[name]; err != nil {
				line := fmt.Sprintf("%s is not available here: %v", name, err)
				b.say("%s", line)
				if !slices.Contains(missing, line) {
					missing = append(missing, line)
				}
				continue
			}
		}
		able = append(able, e)
	}
	return able, missing
}

// warmUp runs all peers that use Kafka, uncounted, before the first scenario:
// until the broker's JVM has compiled its code, the compiler takes more processor
// time than the broker, at the expense of the current peer.
func (b *bench) warmUp(ctx context.Context, sc *scenario, stages []*stage) error {
	stages = slices.DeleteFunc(slices.Clone(stages), func(st *stage) bool {
		switch st.sink.(type) {
		case measure.Topic, measure.Tap:
			return false
		}
		return true
	})
	if b.warm || sc.once || len(stages) == 0 {
		return nil
	}
	b.warm = true // once is enough for all scenarios
	for i := range b.options.warmup {
		for _, st := range stages {
			s, err := sc.measure(b, ctx, st)
			if err != nil {
				return fmt.Errorf("warm-up of %s: %w", st, err)
			}
			b.say("%s: warm-up %d/%d: %s: %s", sc.name, i+1, b.options.warmup, st, s)
		}
	}
	return nil
}

// measureDrain lets the peer drain its backlog once and checks what arrived.
func (b *bench) measureDrain(ctx context.Context, st *stage) (s sample, err error) {
	if err := st.reset(ctx); err != nil {
		return s, err
	}
	var elapsed time.Duration
	came := 0 // before the clock started
	used, err := b.relayed(ctx, st, func(p *process, to measure.Receiver) (err error) {
		began := p.began
		if st.lead > 0 {
			if _, err = b.watch(ctx, p, to, st.lead); err != nil {
				return err
			}
			if came, began, err = to.Received(ctx); err != nil {
				return err
			}
		}
		last, err := b.watch(ctx, p, to, st.rows)
		elapsed = last.Sub(began)
		return err
	})
	if err != nil {
		return s, err
	}
	if came >= st.rows {
		return s, fmt.Errorf("all %d messages had arrived when the clock was to start: raise -rows", st.rows)
	}
	s = newSample(st.rows, elapsed, used)
	s.rate = float64(st.rows-came) / elapsed.Seconds()
	return s, nil
}

// relayed runs the peer's relay into a new receiver while measure runs, checks the
// arrived messages and returns the relay's usage.
func (b *bench) relayed(ctx context.Context, st *stage, measure func(*process, measure.Receiver) error) (used usage, err error) {
	to, err := st.sink.Open(ctx, b.servers)
	if err != nil {
		return used, err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	p, err := b.launch(ctx, st, to)
	if err != nil {
		return used, err
	}
	if err := measure(p, to); err != nil {
		p.kill()
		return used, err
	}
	if used, err = p.stop(); err != nil {
		return used, err
	}
	return used, st.examine(ctx, to)
}

// launch starts the peer's relay, and waits until it is warm if it has to be.
func (b *bench) launch(ctx context.Context, st *stage, to measure.Receiver) (*process, error) {
	j := measure.Job{Scenario: st.scenario.name, Peer: st.peer.Name(), Postgres: st.postgres}
	to.Describe(&j)
	if j.Peer == peers.OutriderName {
		j.Profile = b.options.profile
	}
	begin := time.Now()
	p, err := start(ctx, st.build.program, j, b.options.cpus)
	if warms(st.peer) && err == nil {
		if err = p.awaitWarm(ctx); err == nil {
			b.say("%s: warm after %v, which are not counted", p.peer, p.began.Sub(begin).Round(100*time.Millisecond))
		}
	}
	if err != nil && p != nil {
		p.kill()
		err = errors.Join(err, p.failure())
	}
	return p, err
}

// watch waits until so many messages have arrived and returns the time of the last.
func (b *bench) watch(ctx context.Context, p *process, to measure.Receiver, rows int) (time.Time, error) {
	tick := time.NewTicker(measure.WatchInterval)
	defer tick.Stop()
	before, moved, said := 0, time.Now(), time.Now()
	for {
		n, last, err := to.Received(ctx)
		now := time.Now()
		switch {
		case err != nil:
			return last, err
		case n >= rows:
			return last, nil
		case n > before:
			before, moved = n, now
		case now.Sub(moved) > stallLimit:
			p.kill()
			return last, errors.Join(fmt.Errorf("%d of %d messages have arrived, and no more came for %v", n, rows, stallLimit), p.failure())
		}
		if now.Sub(said) > progressInterval {
			said = now
			b.say("%s: %d of %d", p.peer, n, rows)
		}
		select {
		case <-tick.C:
		case <-p.done:
			return last, p.failure()
		case <-ctx.Done():
			return last, context.Cause(ctx)
		}
	}
}
