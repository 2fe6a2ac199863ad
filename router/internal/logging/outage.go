// Package logging keeps failures that last from filling the log.
package logging

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// outageSummary is how often an outage that lasts is logged again.
const outageSummary = time.Minute

// Outage is a kind of failure that is tried again until it ends. While a database is down it fails many times a second; the log has the
// first failure, a line per [outageSummary], up to [otherErrors] more if the error is another one, and the end.
type Outage struct {
	mu     sync.Mutex
	began  time.Time // zero: there is none
	logged time.Time
	more   int      // failures since it was logged
	errors []string // that were logged since the last summary
	latest error
}

// otherErrors is how many different errors are logged at once. Some texts differ each time, by a port for example.
const otherErrors = 3

// Fail logs a failure if it is the first, or if a summary is due.
func (o *Outage) Fail(log *slog.Logger, level slog.Level, text string, err error, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	o.latest = err
	switch {
	case o.began.IsZero():
		o.began, o.logged, o.more, o.errors = now, now, 0, nil
	case now.Sub(o.logged) >= outageSummary:
		args = append(args, "failures", o.more+1, "for", now.Sub(o.began).Round(time.Second))
		o.logged, o.more, o.errors = now, 0, nil
	case len(o.errors) <= otherErrors && !slices.Contains(o.errors, err.Error()):
	default:
		o.more++
		return
	}
	o.errors = append(o.errors, err.Error())
	log.Log(context.Background(), level, text, append(args, "error", err)...)
}

// Report is Fail or End, as err says: failed and over are their texts.
func (o *Outage) Report(log *slog.Logger, level slog.Level, err error, failed, over string) {
	if err != nil {
		o.Fail(log, level, failed, err)
		return
	}
	o.End(log, over)
}

// End logs that it is over, if there was one; an empty text logs nothing.
func (o *Outage) End(log *slog.Logger, text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.began.IsZero() && text != "" {
		log.Info(text, "after", time.Since(o.began).Round(time.Millisecond))
	}
	o.began, o.latest = time.Time{}, nil
}

// FirstFailures logs the first failure of messages, at most [MostFirstFailures] a minute.
type FirstFailures struct {
	mu     sync.Mutex
	minute time.Time
	logged int
	more   int // since the last one that was logged
}

// MostFirstFailures is how many first failures are logged in a minute.
const MostFirstFailures = 10

// Log logs the first failure of a message, unless there were many in this minute.
func (f *FirstFailures) Log(log *slog.Logger, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := time.Now(); now.Sub(f.minute) >= time.Minute {
		f.minute, f.logged = now, 0
	}
	if f.logged >= MostFirstFailures {
		f.more++
		return
	}
	if f.logged++; f.more > 0 {
		args = append(args, "others_not_logged", f.more)
		f.more = 0
	}
	log.Warn("a message failed and is tried again; its group waits behind it", args...)
}

// Lasts reports whether the last attempt failed.
func (o *Outage) Lasts() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.began.IsZero()
}

// Error returns the error of the last attempt if it failed, otherwise nil.
func (o *Outage) Error() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.latest
}
