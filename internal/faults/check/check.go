// Package check compares received messages with committed rows: it finds lost,
// duplicate and misordered ones.
//
// It trusts only the two ends. The committed rows are read from the outbox table, and
// the receivers record the deliveries; it uses no counters of the relay.
package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Row is one committed row of the outbox table.
type Row struct {
	ID       string // event id; unique within a comparison
	Group    string // empty: no order is wanted
	Position int64  // order of insertion
}

// Delivery is one arrival at the receiver.
type Delivery struct {
	ID    string
	Group string
}

// Report is the result of a comparison.
type Report struct {
	Committed  int // rows
	Delivered  int // arrivals, duplicates included
	Lost       int // rows that never arrived
	Duplicates int // arrivals beyond the first of a row
	OutOfOrder int // first arrivals after a later row of their group, or outside their group's stream
	Unknown    int // arrivals of messages that were never committed, or have another group

	// Examples describes the first few findings, duplicates excepted.
	Examples []string
}

// maxExamples bounds [Report.Examples].
const maxExamples = 10

// Clean reports whether nothing was lost, out of order or made up.
func (r Report) Clean() bool { return r.Lost == 0 && r.OutOfOrder == 0 && r.Unknown == 0 }

// String returns the tally in one line.
func (r Report) String() string {
	s := fmt.Sprintf("committed %d, delivered %d, duplicates %d, lost %d, out of order %d",
		r.Committed, r.Delivered, r.Duplicates, r.Lost, r.OutOfOrder)
	if r.Unknown > 0 {
		s += fmt.Sprintf(", never committed %d", r.Unknown)
	}
	if len(r.Examples) > 0 {
		s += "; " + strings.Join(r.Examples, "; ")
	}
	return s
}

// Compare holds the deliveries against the rows. Each stream is one sequence in
// order of arrival: a partition of a Kafka topic, or all requests of an HTTP
// receiver. All deliveries of a group belong into one stream.
//
// Order is that of first arrivals, against the positions of the group's rows:
// the writers of a group must have taken turns, or positions mean nothing.
func Compare(rows []Row, streams ...[]Delivery) Report {
	c := comparison{
		rows: make(map[string]*rowState, len(rows)), groups: map[string]*groupState{},
		report: Report{Committed: len(rows)},
	}
	for _, row := range rows {
		c.rows[row.ID] = &rowState{Row: row}
	}
	for i, stream := range streams {
		for _, d := range stream {
			c.arrive(i, d)
		}
	}
	c.findLost()
	return c.report
}

type rowState struct {
	Row
	arrived bool
}

// groupState is the stream of a group and the furthest row of it that arrived.
type groupState struct {
	stream int
	last   Row
}

type comparison struct {
	rows   map[string]*rowState
	groups map[string]*groupState
	report Report
}

func (c *comparison) arrive(stream int, d Delivery) {
	c.report.Delivered++
	row := c.rows[d.ID]
	switch {
	case row == nil:
		c.report.Unknown++
		c.example("%s of group %q was delivered and never committed", d.ID, d.Group)
		return
	case row.Group != d.Group:
		c.report.Unknown++
		c.example("%s of group %q was delivered under group %q", d.ID, row.Group, d.Group)
		return
	case row.arrived:
		c.report.Duplicates++
		return
	}
	row.arrived = true
	if row.Group != "" {
		c.order(stream, row.Row)
	}
}

// order holds the first arrival of a row against those before it.
func (c *comparison) order(stream int, row Row) {
	g := c.groups[row.Group]
	if g == nil {
		c.groups[row.Group] = &groupState{stream: stream, last: row}
		return
	}
	switch {
	case g.stream != stream:
		c.report.OutOfOrder++
		c.example("%s of group %q came by stream %d, its group by %d", row.ID, row.Group, stream, g.stream)
	case row.Position < g.last.Position:
		c.report.OutOfOrder++
		c.example("%s (position %d) of group %q arrived behind %s (position %d)",
			row.ID, row.Position, row.Group, g.last.ID, g.last.Position)
	default:
		g.last = row
	}
}

func (c *comparison) findLost() {
	var lost []Row
	for _, row := range c.rows {
		if !row.arrived {
			lost = append(lost, row.Row)
		}
	}
	slices.SortFunc(lost, func(a, b Row) int { return cmp.Compare(a.Position, b.Position) })
	c.report.Lost = len(lost)
	for _, row := range lost {
		c.example("%s (position %d) of group %q was lost", row.ID, row.Position, row.Group)
	}
}

func (c *comparison) example(format string, args ...any) {
	if len(c.report.Examples) < maxExamples {
		c.report.Examples = append(c.report.Examples, fmt.Sprintf(format, args...))
	}
}
