package admin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/internal/assembly"
	"github.com/outriderhq/outrider/internal/retention"
)

// examineRetention checks for the doctor whether a source's table can be cleaned.
func examineRetention(ctx context.Context, settings *assembly.RetentionSettings, table adapters.Source) []adapters.Finding {
	const subject = "retention"
	retainer, ok := table.(adapters.Retainer)
	if !ok || settings == nil {
		return nil
	}
	err := retainer.CheckRetention(ctx, settings.Retention)
	if errors.Is(err, adapters.ErrOperatorsLogin) {
		return []adapters.Finding{{Subject: subject,
			Text: "checked as an operator, who removes no rows: check the relay's role with its own login"}}
	}
	if err != nil {
		return adapters.FindingsOf(subject, err)
	}
	found := []adapters.Finding{{Subject: subject, Text: fmt.Sprintf("rows that every route has settled are removed after %s, mode %s",
		settings.Keep, settings.Mode)}}
	dry := settings.Retention
	dry.DryRun = true
	step, err := retainer.Retain(ctx, dry, nil) // of no route: it removes nothing, and looks at the oldest rows
	switch d := step.DatedAhead; {
	case err != nil:
		found = append(found, adapters.FindingsOf(subject, err)...)
	case d.By > 0:
		found = append(found, adapters.Finding{Level: adapters.LevelWarning, Subject: subject,
			Text: fmt.Sprintf("the oldest row of slot %d, at position %d, is dated %s in the future: it stays until a row behind it is old enough",
				d.Slot, d.Position, d.By.Round(time.Second)),
			Fix: "correct the clock of the application that writes such rows; `" + d.Fix + "` corrects the date of this row"})
	}
	return found
}

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
