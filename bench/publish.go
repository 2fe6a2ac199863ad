package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/outriderhq/outrider/bench/measure"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/admin/operate"
)

// measurePublish lets the entry's connections publish for as long as -duration
// says, and counts what was committed.
func (b *bench) measurePublish(ctx context.Context, st *stage) (s sample, err error) {
	way, ok := st.peer.(publishing)
	if !ok {
		return s, fmt.Errorf("%s does not publish", st.peer.Name())
	}
	pool, err := pgxpool.New(ctx, fmt.Sprintf("%s&pool_max_conns=%d", st.postgres, publishers+1))
	if err != nil {
		return s, err
	}
	defer pool.Close()
	cfg, err := outrider.ParseConfig("bench", []byte(way.config(st.postgres)))
	if err != nil {
		return s, err
	}
	if err := emptyOutbox(ctx, pool, cfg, way.trigger); err != nil {
		return s, err
	}
	stop, err := relayBeside(ctx, cfg)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	used := measure.CPUTime(os.Getpid())
	n, elapsed, err := b.publish(ctx, st, way, pool)
	if err != nil {
		return s, err
	}
	var rows int
	if err := pool.QueryRow(ctx, "SELECT count(DISTINCT id) FROM outrider_outbox").Scan(&rows); err != nil {
		return s, err
	}
	if rows != n {
		return s, fmt.Errorf("the run does not count: %d messages were committed, the table has %d", n, rows)
	}
	return newSample(n, elapsed, usage{cpu: measure.CPUTime(os.Getpid()) - used, peak: measure.PeakMemory(os.Getpid())}), nil
}

// emptyOutbox recreates the tables.
func emptyOutbox(ctx context.Context, pool *pgxpool.Pool, cfg *outrider.Config, trigger bool) error {
	if _, err := pool.Exec(ctx, "DROP SCHEMA public CASCADE; CREATE SCHEMA public"); err != nil {
		return err
	}
	if _, err := operate.Init(ctx, cfg); err != nil {
		return err
	}
	if !trigger {
		return nil
	}
	_, err := operate.InitWake(ctx, cfg)
	return err
}

// relayBeside runs a relay in this process until stop is called.
func relayBeside(ctx context.Context, cfg *outrider.Config) (stop func() error, err error) {
	o, err := outrider.New(cfg, outrider.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- o.Run(ctx) }()
	stop = func() error { cancel(); return <-done }
	select {
	case <-o.Ready():
		return stop, nil
	case err := <-done:
		cancel()
		return nil, errors.Join(errors.New("the relay ended"), err)
	}
}

// publish publishes with all connections and returns the number of committed
// transactions and their time.
func (b *bench) publish(ctx context.Context, st *stage, way publishing, pool *pgxpool.Pool) (int, time.Duration, error) {
	_, payload := measure.NewEvents(1, st.groups, st.payload).Event(1)
	counts, errs := make([]int, st.rate), make([]error, st.rate)
	var work sync.WaitGroup
	begin := time.Now()
	end := begin.Add(b.options.duration)
	for c := range counts {
		work.Go(func() {
			send, err := way.prepare()
			for err == nil && time.Now().Before(end) {
				err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
					e, err := envelope(counts[c]*st.rate+c, st.groups, payload)
					if err != nil {
						return err
					}
					return send(ctx, tx, e)
				})
				counts[c]++
			}
			errs[c] = err
		})
	}
	work.Wait()
	n := 0
	for c := range slices.Values(counts) {
		n += c
	}
	return n, time.Since(begin), errors.Join(errs...)
}
