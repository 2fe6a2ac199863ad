package main

import (
	"fmt"
	"slices"
	"strconv"
)

// columns are the columns of a table of results.
type columns []column

// column is left out when all its cells are empty.
type column struct {
	head string
	cell func(r *result) string
}

// The columns of tables of several scenarios.
var (
	peerColumn = column{"peer", func(r *result) string { return r.Peer }}
	rowsColumn = column{"rows", func(r *result) string { return strconv.Itoa(r.Rows) }}
	withColumn = column{"with", func(r *result) string { return r.With }}
	runsColumn = column{"runs", func(r *result) string { return strconv.Itoa(len(r.Rates)) }}
	cpuColumn  = column{"CPU us/msg", func(r *result) string { return fmt.Sprintf("%.2f", r.CPU) }}
	peakColumn = column{"peak MiB", func(r *result) string {
		if r.Peak == 0 {
			return "unknown"
		}
		return strconv.FormatInt(r.Peak>>20, 10)
	}}
)

// drainColumns show how fast a backlog was drained.
var drainColumns = columns{peerColumn, rowsColumn, withColumn, runsColumn,
	{"msgs/s (median)", func(r *result) string { return fmt.Sprintf("%.0f", r.Rate) }},
	{"lowest to highest", func(r *result) string {
		return fmt.Sprintf("%.0f to %.0f", slices.Min(r.Rates), slices.Max(r.Rates))
	}},
	cpuColumn, peakColumn,
}

// delayColumns show how long messages took.
var delayColumns = columns{peerColumn, rowsColumn, withColumn, runsColumn,
	{"p50 ms (median)", func(r *result) string { return fmt.Sprintf("%.2f", r.P50) }},
	{"lowest to highest", func(r *result) string {
		return fmt.Sprintf("%.2f to %.2f", slices.Min(r.P50s), slices.Max(r.P50s))
	}},
	{"p99 ms (median)", func(r *result) string { return fmt.Sprintf("%.2f", r.P99) }},
	cpuColumn, peakColumn,
}

// figureColumn shows a figure that only its scenario measures.
func figureColumn(head, name, format string) column {
	return column{head, func(r *result) string {
		v, ok := r.Figures[name]
		if !ok {
			return ""
		}
		return fmt.Sprintf(format, v)
	}}
}

// table returns the heads and the lines of the scenario's table.
func (o *outcome) table() (heads []string, cells [][]string) {
	if len(o.Compared) > 0 {
		return ratioTable(o.Compared, o.Builds)
	}
	shown := scenarioNamed(o.Name).columns
	cells = make([][]string, len(o.Results))
	for _, c := range shown {
		texts, empty := make([]string, len(o.Results)), true
		for i := range o.Results {
			texts[i] = c.cell(&o.Results[i])
			empty = empty && texts[i] == ""
		}
		if empty {
			continue
		}
		heads = append(heads, c.head)
		for i := range cells {
			cells[i] = append(cells[i], texts[i])
		}
	}
	return heads, cells
}
