package adapters

import (
	"fmt"
	"strings"
	"time"
)

// Finding is the result of one check. It never has secrets.
type Finding struct {
	Level   Level
	Subject string // of the check, in a few words: "primary server"
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

// FindingsOf makes broken findings of an error, one of each error that was
// joined. The texts of errors have the fix behind a semicolon,
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
