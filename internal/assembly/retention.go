package assembly

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/internal/retention"
)

// Jobs run next to the routes of the parts once their state tables exist,
// each until its context ends: retention, and the expiry of dead messages. It checks
// that tables can be cleaned.
func (b *Builder) Jobs(ctx context.Context, p *Parts) (jobs []func(context.Context), err error) {
	cleaning, err := b.retentionJobs(ctx, p)
	if err != nil {
		return nil, err
	}
	for _, job := range cleaning {
		jobs = append(jobs, job.Run)
	}
	old, err := b.expiry(p.Routes)
	if err == nil && old != nil {
		jobs = append(jobs, old.run)
	}
	return jobs, err
}

// RetentionJob makes the job that cleans a source, nil where none is wanted. The
// source and the state store are those of the parts.
func (b *Builder) RetentionJob(p *Parts, name string) (*retention.Job, error) {
	settings := b.Source(name).Retention
	if settings == nil {
		return nil, nil
	}
	cfg := retention.Config{Source: name, Logger: b.log, Retention: settings.Retention,
		Every: settings.every, WarnAfter: settings.warnAfter, Others: map[string]adapters.Source{}}
	for _, r := range b.Config.Routes {
		if r.From == name {
			cfg.Routes = append(cfg.Routes, r.Name)
		} else {
			cfg.Others[r.Name] = p.Feeds[r.From].Source
		}
	}
	if len(cfg.Routes) == 0 {
		return nil, nil // nothing here reads it, so nothing is known of who does
	}
	if queue := p.Feeds[name].Queue; queue != nil {
		cfg.Queue = queue
		return retention.New(cfg), nil
	}
	table, ok := p.Feeds[name].Source.(adapters.Retainer)
	if !ok {
		return nil, errors.New("its table cannot be cleaned; remove `retention`")
	}
	state, err := b.StateOf(name)
	if err != nil {
		return nil, err
	}
	cfg.Table, cfg.State = table, p.States[state.Key]
	return retention.New(cfg), nil
}

// retentionJobs makes the jobs of all sources that have a retention, and checks
// that their tables can be cleaned.
func (b *Builder) retentionJobs(ctx context.Context, p *Parts) ([]*retention.Job, error) {
	var jobs []*retention.Job
	var errs []error
	for _, name := range SortedNames(b.Config.Sources) {
		job, err := b.RetentionJob(p, name)
		if err == nil && job != nil {
			jobs = append(jobs, job)
			err = job.Check(ctx)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("source %q: %w", name, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return jobs, b.Metrics.Register(retentionMetrics(jobs))
}

// RetentionSettings are the settings of a source's retention.
type RetentionSettings struct {
	adapters.Retention
	every, warnAfter time.Duration
}

// queueRetention returns the settings of the retention of a queue's tables; nil: rows stay.
func queueRetention(r *config.QueueRetention) *RetentionSettings {
	if r == nil {
		return nil
	}
	return &RetentionSettings{Retention: adapters.Retention{Mode: adapters.RetainRows, Keep: r.Keep.Std(), Batch: r.Batch}, every: r.Every.Std()}
}

// retentionMetrics shows what the jobs do.
type retentionMetrics []*retention.Job

// Describe implements prometheus.Collector.
func (m retentionMetrics) Describe(out chan<- *prometheus.Desc) { prometheus.DescribeByCollect(m, out) }

// Collect implements prometheus.Collector.
func (m retentionMetrics) Collect(out chan<- prometheus.Metric) {
	for _, job := range m {
		s := job.Stats()
		send := func(name, help string, kind prometheus.ValueType, value float64) {
			desc := prometheus.NewDesc("outrider_retention_"+name, help, []string{"source"}, nil)
			out <- prometheus.MustNewConstMetric(desc, kind, value, s.Source)
		}
		send("removed_rows_total", "Rows of the outbox that were removed one by one.", prometheus.CounterValue, float64(s.Rows))
		send("removed_partitions_total", "Partitions of the outbox that were dropped.", prometheus.CounterValue, float64(s.Partitions))
		send("errors_total", "Steps of retention that failed.", prometheus.CounterValue, float64(s.Errors))
		send("oldest_row_seconds", "Age of the oldest row that is left, as the last pass found it.", prometheus.GaugeValue, s.Oldest.Seconds())
		send("stray_rows", "Rows in the default partition, up to 100000.", prometheus.GaugeValue, float64(s.Stray))
		send("positions_ahead", "Positions that have a partition and are not drawn yet; 0 for a table without partitions.", prometheus.GaugeValue, float64(s.Ahead))
		send("dated_ahead_seconds", "How far in the future the oldest row that is left is dated; 0: it is not.", prometheus.GaugeValue, s.DatedAhead.By.Seconds())
		send("waiting_partitions", "Partitions that no route needs and that cannot be dropped because of transactions that use the table.", prometheus.GaugeValue, float64(s.Waiting))
		held := prometheus.NewDesc("outrider_retention_held_seconds", "For how long a route has kept rows that are old enough to go.", []string{"source", "route"}, nil)
		for _, route := range job.Routes {
			out <- prometheus.MustNewConstMetric(held, prometheus.GaugeValue, s.Held[route].Seconds(), s.Source, route)
		}
		for route, since := range s.Held {
			if !slices.Contains(job.Routes, route) {
				out <- prometheus.MustNewConstMetric(held, prometheus.GaugeValue, since.Seconds(), s.Source, route)
			}
		}
	}
}
