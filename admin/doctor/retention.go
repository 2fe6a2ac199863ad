package doctor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/internal/assembly"
)

// retention checks whether a source's table can be cleaned.
func (d *doctor) retention(ctx context.Context, source string, settings *assembly.RetentionSettings, f assembly.Feed) []adapters.Finding {
	const subject = "retention"
	if f.Queue != nil && settings != nil {
		if err := f.Queue.CheckRetention(ctx, settings.Retention); err != nil {
			return adapters.FindingsOf(subject, err)
		}
		return []adapters.Finding{{Subject: subject, Text: fmt.Sprintf("delivered rows are removed %s after they were created", settings.Keep)}}
	}
	retainer, ok := f.Source.(adapters.Retainer)
	if !ok || settings == nil {
		return nil
	}
	err := retainer.CheckRetention(ctx, settings.Retention)
	if errors.Is(err, adapters.ErrOperatorsLogin) || errors.Is(err, adapters.ErrOwnerOnly) && d.operatorsLogin(ctx, source) {
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
	step, err := retainer.Retain(ctx, dry, nil) // of no route: it removes nothing, and reads the oldest rows
	switch ahead := step.DatedAhead; {
	case err != nil:
		found = append(found, adapters.FindingsOf(subject, err)...)
	case ahead.By > 0:
		found = append(found, adapters.Finding{Level: adapters.LevelWarning, Subject: subject,
			Text: fmt.Sprintf("the oldest row of slot %d, at position %d, is dated %s in the future: it stays until a row behind it is old enough",
				ahead.Slot, ahead.Position, ahead.By.Round(time.Second)),
			Fix: "correct the clock of the application that writes such rows; `" + ahead.Fix + "` corrects the date of this row"})
	}
	return found
}

// operatorsLogin reports whether the login is an operator's in the state store of a source.
// What keeps it from looking is a finding about the state.
func (d *doctor) operatorsLogin(ctx context.Context, source string) bool {
	k, err := d.build.StateOf(source)
	if err != nil || k.Exists() != nil {
		return false
	}
	s, err := k.Open(ctx)
	if err != nil {
		return false
	}
	defer func() { _ = s.Close() }() // nothing was written
	judge, ok := s.(adapters.LoginChecker)
	if !ok {
		return false
	}
	operators, err := judge.OperatorsLogin(ctx)
	return operators && err == nil
}
