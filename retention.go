package outrider

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

// retentionJob makes the job that cleans a source, nil where none is wanted. The
// source and the state store are those of the parts.
func (b *builder) retentionJob(p *parts, name string) (*retention.Job, error) {
	settings, ok := retentionOf(b.cfg.Sources[name])
	if !ok {
		return nil, nil
	}
	cfg := retention.Config{Source: name, Logger: b.log, Retention: settings.Retention,
		Every: settings.every, WarnAfter: settings.warnAfter, Others: map[string]adapters.Source{}}
	for _, r := range b.cfg.Routes {
		if r.From == name {
			cfg.Routes = append(cfg.Routes, r.Name)
		} else {
			cfg.Others[r.Name] = p.sources[r.From]
		}
	}
	if len(cfg.Routes) == 0 {
		return nil, nil // nothing here reads it, so nothing is known of who does
	}
	table, ok := p.sources[name].(adapters.Retainer)
	if !ok {
		return nil, errors.New("its table cannot be cleaned; remove `retention`")
	}
	location, err := stateLocation(b.cfg, b.cfg.Sources[name])
	if err != nil {
		return nil, err
	}
	cfg.Table, cfg.State = table, p.states[stateKey(location)]
	return retention.New(cfg), nil
}

// retentionJobs makes the jobs of all sources that have a retention, and checks
// that their tables can be cleaned.
func (b *builder) retentionJobs(ctx context.Context, p *parts) ([]*retention.Job, error) {
	var jobs []*retention.Job
	var errs []error
	for _, name := range sortedNames(b.cfg.Sources) {
		job, err := b.retentionJob(p, name)
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
	return jobs, b.metrics.Register(retentionMetrics(jobs))
}

// partitionRows is how many positions each partition of a source's table has; 0:
// it has no partitions.
func partitionRows(s *config.Postgres) int64 {
	if s.Retention == nil || s.Retention.Mode != string(adapters.RetainPartitions) {
		return 0
	}
	return int64(s.Retention.PartitionRows)
}

// retentionSettings are what the configuration says of a source's retention.
type retentionSettings struct {
	adapters.Retention
	every, warnAfter time.Duration
}

// retentionOf returns a source's retention; false: its rows stay.
func retentionOf(src config.Source) (retentionSettings, bool) {
	switch s := src.(type) {
	case *config.Postgres:
		if r := s.Retention; r != nil {
			return retentionSettings{adapters.Retention{Mode: adapters.RetentionMode(r.Mode), Keep: r.Keep.Std(), Batch: r.Batch,
				PartitionRows: int64(r.PartitionRows)}, r.Every.Std(), r.WarnAfter.Std()}, true
		}
	case *config.SQLite:
		if r := s.Retention; r != nil {
			return retentionSettings{adapters.Retention{Mode: adapters.RetainRows, Keep: r.Keep.Std(), Batch: r.Batch},
				r.Every.Std(), r.WarnAfter.Std()}, true
		}
	}
	return retentionSettings{}, false
}

// logTableOf reports whether a source is a log table.
func logTableOf(src config.Source) bool {
	switch s := src.(type) {
	case *config.Postgres:
		return !s.Queued()
	case *config.SQLite:
		return true
	}
	return false
}

// examineRetention tells the doctor whether a source's table can be cleaned.
func examineRetention(ctx context.Context, src config.Source, table adapters.Source) []adapters.Finding {
	const subject = "retention"
	settings, ok := retentionOf(src)
	retainer, can := table.(adapters.Retainer)
	if !ok || !can {
		return nil
	}
	if err := retainer.CheckRetention(ctx, settings.Retention); err != nil {
		return adapters.FindingsOf(subject, err)
	}
	found := []adapters.Finding{{Subject: subject, Text: fmt.Sprintf("rows that every route has settled are removed after %s, mode %s",
		settings.Keep, settings.Mode)}}
	settings.DryRun = true
	step, err := retainer.Retain(ctx, settings.Retention, nil) // of no route: it removes nothing, and looks at the oldest rows
	switch d := step.DatedAhead; {
	case err != nil:
		found = append(found, adapters.FindingsOf(subject, err)...)
	case d.By > 0:
		found = append(found, adapters.Finding{Level: adapters.LevelWarning, Subject: subject,
			Text: fmt.Sprintf("the oldest row of slot %d, at position %d, is dated %s in the future: it stays until a row behind it is old enough",
				d.Slot, d.Position, d.By.Round(time.Second)),
			Fix: "correct the clock of what writes such rows; `" + d.Fix + "` dates this one anew"})
	}
	return found
}

// Retain removes what can go from the tables of all sources that have a
// retention, once, and returns what it did and found. A dry run removes nothing
// and counts what would go.
func (op *Operator) Retain(ctx context.Context, dryRun bool) ([]adapters.RetentionStats, error) {
	b := &builder{cfg: op.cfg, log: op.log}
	for _, r := range op.cfg.Routes { // also those of other sources: they may read the same table
		if logTableOf(op.cfg.Sources[r.From]) && op.parts.sources[r.From] == nil {
			if _, err := op.source(ctx, r.Name); err != nil { // keeps it among the parts
				return nil, err
			}
		}
	}
	var all []adapters.RetentionStats
	for _, name := range sortedNames(op.cfg.Sources) {
		job, err := b.retentionJob(op.parts, name)
		if err == nil && job != nil {
			job.Retention.DryRun = dryRun
			var done adapters.Retained
			done, err = retainOnce(ctx, job)
			stats := job.Stats()
			stats.Rows, stats.Partitions = done.Rows, int64(done.Partitions)
			all = append(all, stats)
		}
		if err != nil {
			return all, fmt.Errorf("source %q: %w", name, err)
		}
	}
	return all, nil
}

// retainOnce checks a job and makes one pass.
func retainOnce(ctx context.Context, job *retention.Job) (adapters.Retained, error) {
	if err := job.Check(ctx); err != nil {
		return adapters.Retained{}, err
	}
	done, err := job.Pass(ctx)
	if err == nil && done.Busy {
		err = errors.New("a running instance, or a transaction that writes to the table, is in the way: nothing more was removed; try again")
	}
	return done, err
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
