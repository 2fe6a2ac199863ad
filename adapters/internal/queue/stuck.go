package queue

import (
	"fmt"
	"time"

	"github.com/outriderhq/outrider/adapters"
)

// Stuck counts rows of a table that have been marked as being processed for longer than a delivery takes.
type Stuck struct {
	Subject string        // of the finding
	Rows    string        // "rows" or "documents"
	Claimed string        // the column that says since when
	Timeout time.Duration // of claims
	Overdue int           // rows that are marked for longer
	More    bool          // counting has stopped there
	Longest time.Duration // for how long the first of them is, if that is known
	Undated int           // rows that do not say since when: no relay puts these back
}

// Finding is the doctor's finding about them.
func (s *Stuck) Finding() adapters.Finding {
	if s.Overdue+s.Undated == 0 {
		return adapters.Finding{Subject: s.Subject, Text: fmt.Sprintf("none for longer than claims.timeout, %v", s.Timeout)}
	}
	text := fmt.Sprintf("%d are marked so for longer than claims.timeout, %v", s.Overdue, s.Timeout)
	if s.More {
		text = "at least " + text
	}
	fix := "start `outrider run`, which puts them back (every claims.recover); while another processor works on the table, see whether it hangs"
	switch {
	case s.Undated > 0:
		text = fmt.Sprintf("%d have no time in %s, and %s: the %s behind them of their groups wait", s.Undated, s.Claimed, text, s.Rows)
		fix = "if no process works on those without a time, reset them to waiting by their status; `outrider run` puts the others back (every claims.recover)"
	case s.Longest > 0:
		text += fmt.Sprintf("; the longest for %v", s.Longest.Truncate(time.Second))
	}
	return adapters.Finding{Level: adapters.LevelWarning, Subject: s.Subject, Text: text, Fix: fix}
}
