package adapters

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Examiner is implemented by sources, destinations and state stores that can
// check everything they depend on. Unlike a [Checker] it also reports the
// checks that passed, and warnings, each with a fix.
type Examiner interface {
	// Examine returns one finding for each checked object, in a natural order.
	// It changes nothing, and sends nothing that a receiver would accept as a
	// message. A check that cannot run is a finding too.
	Examine(ctx context.Context) []Finding
}

// Finding is the result of one check. It never has secrets.
type Finding struct {
	Level   Level
	Subject string // what was looked at, in a few words: "primary server"
	Text    string // what was found
	Fix     string // what to do; empty when there is nothing to do

	Transaction string // the [OpenTransaction] that was found; empty: none, or none that can be ended
}

// Level is the severity of a finding.
type Level int

// The levels of findings, ascending.
const (
	LevelOK      Level = iota // as it should be
	LevelUnknown              // could not be checked
	LevelWarning              // works, and will hurt one day
	LevelBroken               // does not work
)

// String returns the level's name.
func (l Level) String() string {
	switch l {
	case LevelOK:
		return "ok"
	case LevelUnknown:
		return "unknown"
	case LevelWarning:
		return "warning"
	case LevelBroken:
		return "broken"
	}
	return "level"
}

// LaneBacklogger is implemented by sources that count the rows of many spans at once.
type LaneBacklogger interface {
	// Backlogs counts the rows of each span, at most so many.
	Backlogs(ctx context.Context, spans []Span, most int) ([]Backlog, error)
}

// Span is a range of positions of one slot.
type Span struct {
	Slot  int
	After int64 // rows at or below it do not count
	Upto  int64 // rows above it do not count; 0: no bound
}

// Backlog counts the rows in spans, or the unfinished rows of a queue, whether a
// route matches them or not.
type Backlog struct {
	Rows   int
	More   bool      // there are more than Rows: counting stopped
	Oldest time.Time // when the first of the rows was created; zero: none, or unknown
}

// Add adds what lies elsewhere.
func (b *Backlog) Add(other Backlog) {
	b.Rows, b.More = b.Rows+other.Rows, b.More || other.More
	if !other.Oldest.IsZero() && (b.Oldest.IsZero() || other.Oldest.Before(b.Oldest)) {
		b.Oldest = other.Oldest
	}
}

// Upto is the backlog counted up to so many rows.
func (b Backlog) Upto(most int) Backlog {
	if b.More || b.Rows > most {
		b.Rows, b.More = most, true
	}
	return b
}

// Rebaser is implemented by sources whose cursors become invalid when the
// database is restored.
type Rebaser interface {
	// Rebase returns, by slot, cursors of the database as it is now that stand
	// where the given lanes stood if that is known, and otherwise before
	// that: rows may come again, none is left out. It waits for transactions
	// that write to the table now, until ctx ends.
	Rebase(ctx context.Context, lanes []LaneStatus) (map[int]Cursor, error)
}

// RebaserOf returns what repositions a source's cursors after a restore. ok is false for
// a source that cannot tell which rows a cursor had not covered, because it is no
// [Rebaser] or has a method CanRebase that says so: a seek is the only way.
func RebaserOf(s Source) (r Rebaser, ok bool) {
	if c, limited := s.(interface{ CanRebase() bool }); limited && !c.CanRebase() {
		return nil, false
	}
	r, ok = s.(Rebaser)
	return r, ok
}

// FindingsOf makes broken findings of an error, one of each error that was
// joined. The fix stands in the texts of errors behind a semicolon,
// or is a statement of SQL behind a colon.
func FindingsOf(subject string, err error) []Finding {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var out []Finding
		for _, e := range joined.Unwrap() {
			out = append(out, FindingsOf(subject, e)...)
		}
		return out
	}
	text, fix, found := strings.Cut(err.Error(), "; ")
	for _, verb := range []string{"GRANT ", "ALTER ", "CREATE "} {
		if i := strings.LastIndex(text, ": "+verb); !found && i > 0 {
			text, fix = text[:i], text[i+2:]
		}
	}
	return []Finding{{Level: LevelBroken, Subject: subject, Text: text, Fix: fix}}
}

// The differences between clocks that are reported. Leases run by the state
// store's clock and ages by the database's, so that a skew breaks nothing.
const clockTolerance = time.Second

// ExamineClock judges how far another clock is ahead of this host's, give or take an
// uncertainty.
func ExamineClock(subject string, ahead, uncertain time.Duration) Finding {
	off := max(ahead, -ahead)
	if off <= clockTolerance+uncertain {
		return Finding{Level: LevelOK, Subject: subject, Text: fmt.Sprintf("the server's and this host's agree within %v", max(off+uncertain, time.Millisecond).Round(time.Millisecond))}
	}
	which := "ahead of"
	if ahead < 0 {
		which = "behind"
	}
	return Finding{Level: LevelWarning, Subject: subject,
		Text: fmt.Sprintf("the server's clock is %v %s this host's: ages and times of retries are off by as much", off.Round(time.Millisecond), which),
		Fix:  "synchronise both hosts' clocks (NTP)"}
}

// ExamineLanes judges who works and what waits for an operator, as Lanes of a
// [StateStore] reports it.
func ExamineLanes(lanes []LaneStatus) []Finding {
	owners := map[string]bool{}
	held, dead := 0, 0
	for _, l := range lanes {
		if l.Owner != "" {
			owners[l.Owner] = l.Alive
		}
		held += l.Held
		dead += l.Dead
	}
	var alive, gone []string
	for name, lives := range owners {
		if lives {
			alive = append(alive, name)
		} else {
			gone = append(gone, name)
		}
	}
	slices.Sort(alive)
	slices.Sort(gone)
	f := Finding{Subject: "instances", Text: "none is running"}
	if len(alive) > 0 {
		f.Text = "working: " + strings.Join(alive, ", ")
	}
	if len(gone) > 0 {
		f.Level = LevelWarning
		f.Text += "; ended without releasing its lanes: " + strings.Join(gone, ", ")
		f.Fix = "start `outrider run`; it takes the lanes over"
	}
	parked := Finding{Subject: "parked messages", Text: "none is dead or held"}
	if held+dead > 0 {
		parked.Level = LevelWarning
		parked.Text = fmt.Sprintf("%d dead, and %d held with their groups behind them", dead, held)
		parked.Fix = "list them with `outrider parked list`, then `outrider parked redrive` or `skip`"
	}
	return []Finding{f, parked}
}
