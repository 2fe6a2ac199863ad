package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/status"
)

// behind is how far a route is behind, for people.
func behind(p *status.RouteStatus) string {
	if p.Behind == nil {
		return ""
	}
	text := strconv.Itoa(*p.Behind)
	if p.BehindMore {
		text = ">" + text
	}
	if p.Oldest != nil && *p.Behind > 0 {
		text += " (" + ago(*p.Oldest) + ")"
	}
	return text
}

// explainedRoutes is of how many routes the table is explained below it.
const explainedRoutes = 10

// printStops explains below the table why routes need attention, and what to do.
func (a *app) printStops(rows []status.RouteStatus) {
	if len(rows) > 0 && rows[0].NoRelay {
		fmt.Fprintln(a.out, "\nno relay is running: start one with outrider run")
	}
	explained := 0
	for i := range rows {
		lines := explanation(&rows[i])
		if len(lines) == 0 {
			continue
		}
		if explained++; explained > explainedRoutes {
			fmt.Fprintln(a.out, "\nmore routes need attention: outrider status ROUTE explains one")
			return
		}
		fmt.Fprintln(a.out)
		for _, l := range lines {
			fmt.Fprintln(a.out, plain(l))
		}
	}
}

// explanation has the facts about a route that are no numbers: each fact on
// a line, what to do about it on the next.
func explanation(p *status.RouteStatus) []string {
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	if p.State == status.StateForeign || p.State == status.StateFailing {
		c := p.Cause()
		add("route %s: %s", p.Route, c.Text)
		if c.Action != "" {
			add("  %s", c.Action)
		}
	}
	if p.Stopped != "" {
		add("route %s cannot run: %s", p.Route, p.Stopped)
	}
	if p.DeadError != "" {
		add("dead rows of route %s could not be counted: %s", p.Route, p.DeadError)
	}
	if p.Paused != nil {
		add("route %s has been paused%s", p.Route, why(p.Paused))
		add("  to resume it: outrider resume %s", p.Route)
	}
	for _, d := range p.Down {
		if d.Durable {
			add("route %s: address %s has been paused%s", p.Route, d.Address, why(&d))
			add("  to resume it: outrider resume %s --address %s", p.Route, strconv.Quote(d.Address))
			continue
		}
		add("route %s: address %s has been unavailable%s", p.Route, d.Address, why(&d))
		if create := p.TopicCommand(&d); create != "" {
			add("  to create it: %s", create)
		}
		add("  Outrider is probing it%s and resumes when it answers", nextProbe(&d))
	}
	if f := p.Failing; f != nil {
		add("route %s: %s", p.Route, failureText(f, p))
		add("  to look closer: outrider parked list --route %s --status %s", p.Route, f.Status)
	}
	if p.LongTransaction != "" {
		add("route %s: %s", p.Route, p.LongTransaction)
		add("  to end it: %s", p.LongTransactionFix)
	}
	if p.Processing != nil && p.Processing.Rows > 0 {
		add("route %s: %s", p.Route, markedText(p.Processing))
	}
	return lines
}

// failureText says what fails, with the first message as the example.
func failureText(f *status.Failing, p *status.RouteStatus) string {
	n := map[adapters.ParkedStatus]int{adapters.ParkedHeld: p.Held, adapters.ParkedRetrying: p.Retrying, adapters.ParkedDead: p.Dead}[f.Status]
	text := fmt.Sprintf("%s %s; message %s", counted(n, "message"), f.Status, f.ID)
	if f.Group != "" {
		text += " of group " + f.Group
	}
	text += ", parked " + ago(f.Since) + " after " + counted(f.Attempts, "attempt")
	if f.Next != nil {
		if time.Until(*f.Next) > 0 {
			text += ", next attempt " + ago(*f.Next)
		} else {
			text += ", due now"
		}
	}
	return text + ": " + shorten(f.Error, 300)
}

// markedText describes it for people.
func markedText(m *status.Marked) string {
	text, verb := counted(m.Rows, "row"), "are"
	if m.More {
		text = "more than " + text
	} else if m.Rows == 1 {
		verb = "is"
	}
	longest := (time.Duration(m.Longest) * time.Second).String()
	return text + " of its source " + verb + " marked as being processed, for " + longest + " at most; rows that a crash left so go back after claims.timeout, " +
		"but not those without a time of their claim, which outrider doctor counts"
}

// nextProbe is when a probed address is tried again, if that is known.
func nextProbe(s *status.Stop) string {
	if s.Probe == nil || time.Until(*s.Probe) <= 0 {
		return ""
	}
	return " (next probe " + ago(*s.Probe) + ")"
}

func why(s *status.Stop) string {
	text := " since " + s.Since.UTC().Format(time.RFC3339)
	if s.By != "" {
		text += " by " + s.By
	}
	if s.Waiting > 0 {
		text += ", " + counted(s.Waiting, "message") + " waiting in memory"
	}
	if s.Reason != "" {
		text += ": " + s.Reason
	}
	return text
}

// ownerOf is the instance that works the row.
func ownerOf(p *status.RouteStatus) string {
	switch {
	case p.Lanes == 0 && p.Slot == nil:
		return "(has never run)"
	case len(p.Owners) == 0:
		return "(none)"
	}
	who := p.Owners[0]
	if len(p.Owners) > 1 {
		who = counted(len(p.Owners), "instance")
	}
	if !p.Alive {
		who += " (not alive)"
	}
	return who
}

// deadOf is how many messages are dead, with a sign where not all rows were counted.
func deadOf(p *status.RouteStatus) string {
	if p.DeadMore {
		return strconv.Itoa(p.Dead) + "+"
	}
	return strconv.Itoa(p.Dead)
}
