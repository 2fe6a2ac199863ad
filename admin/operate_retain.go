package admin

import (
	"context"
	"errors"
	"fmt"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/internal/assembly"
	"github.com/outriderhq/outrider/internal/retention"
)

// Retain removes what can go from the tables of all sources that have a
// retention, once, and returns what it did and found. A dry run removes nothing
// and counts what would go.
func (op *Operator) Retain(ctx context.Context, dryRun bool) ([]adapters.RetentionStats, error) {
	for _, r := range op.build.Config.Routes { // also those of other sources: they may read the same table
		if op.build.Source(r.From).Log && op.parts.Feeds[r.From].Source == nil {
			if _, err := op.source(ctx, r.Name); err != nil { // keeps it among the parts
				return nil, err
			}
		}
	}
	var all []adapters.RetentionStats
	for _, name := range assembly.SortedNames(op.build.Config.Sources) {
		job, err := op.build.RetentionJob(op.parts, name)
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
