package operate

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/internal/assembly"
	"github.com/outriderhq/outrider/internal/retention"
)

// Retain removes what can go from the tables of all sources that have a
// retention, once, and returns what it did and found. A dry run removes nothing
// and counts what would go. By is the author in the audit log, which has a record for each source of which rows were removed.
func (op *Operator) Retain(ctx context.Context, dryRun bool, by string) ([]adapters.RetentionStats, error) {
	opened := map[string]bool{}
	for _, r := range op.build.Config.Routes { // also those of other sources: they may read the same table
		k := op.build.Source(r.From)
		if (k.Log || k.Retention != nil) && !opened[r.From] {
			opened[r.From] = true
			if _, _, err := op.reading(ctx, r.Name); err != nil { // keeps it among the parts
				return nil, err
			}
		}
	}
	var all []adapters.RetentionStats
	for _, name := range assembly.SortedNames(op.build.Config.Sources) {
		op.opening.Lock()
		job, err := op.build.RetentionJob(op.parts, name)
		op.opening.Unlock()
		if err == nil && job != nil {
			job.Retention.DryRun = dryRun
			var done adapters.Retained
			done, err = retainOnce(ctx, job)
			stats := job.Stats()
			stats.Rows, stats.Partitions = done.Rows, int64(done.Partitions)
			all = append(all, stats)
			if !dryRun && stats.Rows+stats.Partitions > 0 {
				err = errors.Join(err, op.record(ctx, name, by, "remove old rows", int(stats.Rows), "source", name, "partitions", strconv.FormatInt(stats.Partitions, 10)))
			}
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
		err = refused("a running instance, or a transaction that writes to the table, is in the way: nothing more was removed; try again")
	}
	return done, err
}

// RetentionView counts the rows that retention removed from a source, or would remove, as the command line tool and the API show it.
type RetentionView struct {
	Source        string             `json:"source"`
	Rows          int64              `json:"rows" doc:"Removed one by one, or that would be."`
	Partitions    int64              `json:"partitions" doc:"Dropped, or that would be."`
	OldestSeconds float64            `json:"oldest_seconds" doc:"Age of the oldest row that is left."`
	HeldSeconds   map[string]float64 `json:"held_seconds" nullable:"false" doc:"Routes that still need rows which are old enough, and for how long."`
	StrayRows     int64              `json:"stray_rows" doc:"Rows in the default partition."`
	Waiting       int                `json:"waiting_partitions" doc:"No route needs them, and they could not be dropped."`
	InTheWay      string             `json:"in_the_way,omitempty" doc:"Because of this."`
	AheadSeconds  float64            `json:"dated_ahead_seconds,omitempty" doc:"How far in the future the oldest row is dated."`
}

// ViewRetention shows what [Operator.Retain] returns.
func ViewRetention(all []adapters.RetentionStats) []RetentionView {
	rows := []RetentionView{}
	for _, s := range all {
		r := RetentionView{Source: s.Source, Rows: s.Rows, Partitions: s.Partitions, OldestSeconds: s.Oldest.Seconds(),
			HeldSeconds: map[string]float64{}, StrayRows: s.Stray, Waiting: s.Waiting, InTheWay: s.InTheWay,
			AheadSeconds: s.DatedAhead.By.Seconds()}
		for route, since := range s.Held {
			r.HeldSeconds[route] = since.Seconds()
		}
		rows = append(rows, r)
	}
	return rows
}
