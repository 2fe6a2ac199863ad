package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters/layout"
)

const layoutsPage = "docs/layouts.md"

// TestLayoutsPageFollowsFromThePresets: `go test ./internal/docs -update` writes the page again.
func TestLayoutsPageFollowsFromThePresets(t *testing.T) {
	t.Parallel()
	want := layoutsText()
	file := filepath.Join(root, layoutsPage)
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != want {
		t.Errorf("%s is not what the presets say (%v); write it with: go test ./internal/docs -update", layoutsPage, err)
	}
}

// layoutsText is the page.
func layoutsText() string {
	var b strings.Builder
	b.WriteString(`# Layouts

Read a known system's table by setting ` + "`layout: NAME`" + ` on a source of type postgres, or of type sqlite, mysql or mongodb if the table below has it. For each layout
this page lists columns, statuses, and the original's settings. These settings are defaults; keys in the file override them.

<!-- Written by go test ./internal/docs -update from the presets in adapters/layout. -->

| layout | table | kind | in SQLite | in MySQL | in MongoDB | page |
|---|---|---|---|---|---|---|
| ` + "`outrider`" + ` | Outrider's own table | append-only | yes | no | no | [concepts](concepts.md) |
`)
	for _, p := range layout.All() {
		kind, lite, my, documents := "append-only", "no", "no", "no"
		if p.Queue != nil {
			kind = "rows with a status"
			if p.Queue.Definitions[layout.SQLite].Columns != nil {
				lite = "yes"
			}
			if p.Queue.Definitions[layout.MySQL].Columns != nil {
				my = "[yes](mysql.md)"
			}
			if p.Queue.Fields != nil {
				documents = "[yes](mongodb.md)"
			}
		}
		fmt.Fprintf(&b, "| [`%s`](#%s) | %s | %s | %s | %s | %s | [%s](%s) |\n", p.Name, p.Name, p.Doc, kind, lite, my, documents, strings.TrimSuffix(filepath.Base(p.Page), ".md"), p.Page)
	}
	b.WriteString("| `custom` | described in the configuration | either | yes | [with a status](mysql.md) | no | [tables](tables.md) |\n\n" +
		"A new preset is one file: see [CONTRIBUTING.md](../CONTRIBUTING.md#add-a-layout).\n")
	for _, p := range layout.All() {
		fmt.Fprintf(&b, "\n## %s\n\n%s.\n", p.Name, sentence(p.Doc))
		if p.Queue != nil {
			queueText(&b, p.Queue)
		} else {
			logText(&b, p.Log)
		}
		settingsText(&b, p)
	}
	return b.String()
}

func logText(b *strings.Builder, l *layout.Log) {
	switch {
	case l.TopicPrefix != "":
		fmt.Fprintf(b, "\nTable: `%sTOPIC`; the application creates it.\n", l.TopicPrefix)
	default:
		fmt.Fprintf(b, "\nTable: `%s`; the application creates it.\n", l.Table)
	}
	c := l.Columns
	if l.Numbered {
		c.ID = ""
	}
	columns := [][2]string{{"position", c.Position}, {"transaction", c.XID}, {"id", c.ID}, {"type", c.Type},
		{"group", c.Group}, {"payload", c.Payload}, {"headers", c.Headers}, {"tags", c.Tags}, {"tenant", c.Tenant},
		{"aggregate type", c.AggregateType}, {"aggregate id", c.AggregateID}, {"occurred at", c.OccurredAt}, {"created at", c.CreatedAt}}
	for _, h := range l.Headers {
		columns = append(columns, [2]string{"header `" + h.Name + "`", h.Column})
	}
	rows(b, "message", "column", columns)
	logNotes(b, l)
}

// logNotes writes what the columns do not say.
func logNotes(b *strings.Builder, l *layout.Log) {
	if l.Numbered {
		fmt.Fprintf(b, "\nThe id of a message is the table's name, a colon and the position: `%s:42`.\n", l.Table)
	}
	if l.Captured {
		b.WriteString("\n`outrider init` adds the position and the transaction, without writing the table again; rows from before have none and are not read. " +
			"`columns` names those that are called otherwise, `header_columns` those that travel as headers.\n")
	}
	if l.Progress != "" {
		fmt.Fprintf(b, "\nA route with `progress: {topic: T, publisher: P}` keeps its row in `%s` (`progress_table` names another).\n", l.Progress)
	}
}

func queueText(b *strings.Builder, q *layout.Queue) {
	tables := make([]string, len(q.Tables))
	for i, t := range q.Tables {
		tables[i] = "`" + t.Name + "`"
		if t.Kind != "" {
			tables[i] += " (kind `" + t.Kind + "`)"
		}
	}
	fmt.Fprintf(b, "\nTables: %s.\n", strings.Join(tables, ", "))
	var columns [][2]string
	for _, c := range append(q.Columns.Required(), q.Columns.Optional()...) {
		columns = append(columns, [2]string{strings.ReplaceAll(c.What, "_", " "), c.Name})
	}
	for _, h := range q.Headers {
		columns = append(columns, [2]string{"header `" + h.Name + "`", h.Column})
	}
	rows(b, "value", "column", columns)
	s := q.Statuses
	rows(b, "row", "status", [][2]string{{"waiting", s.Pending}, {"waiting for another attempt", s.Again()}, {"being processed", s.Processing},
		{"delivered", s.Done}, {"dead", strings.Join(q.Dead(), "`, `")}})
	var notes []string
	for note, holds := range map[string]bool{
		"Rows without a group are in the group `" + q.DefaultGroup + "`.":                                                q.DefaultGroup != "",
		"Rows without a group have no order.":                                                                            q.DefaultGroup == "" && q.Columns.Group != "",
		"The type is the payload's field `type`, if it has one.":                                                         q.TypeInPayload,
		"A payload that is valid JSON is JSON for destinations; any other payload is bytes.":                             q.JSONBytes,
		"The attempts of a dead row do not count the last one.":                                                          q.DeadKeepsRetries,
		"A delivered row is deleted; with `delivered: keep` it gets the status instead.":                                 q.DoneIsDeleted,
		"The type column has the kind of the row, which is not part of its group.":                                       q.KindInType,
		"The status of a dead row depends on the receiver's result.":                                                     len(q.DeadBy) > 0,
		"The error is written only when a row is dead.":                                                                  q.ErrorWhenDead,
		"The time of a claim and its owner are removed when the claim ends.":                                             q.ClaimEnds,
		"`outrider init` creates the tables with their indexes, and Outrider's own indexes.":                             len(q.Definitions) > 0,
		"Rows are not marked as being processed: the instance that owns the lane of their group processes them.":         q.Claimless(),
		"Attempts, the time of the next one and errors are kept in the state store, which must be in the same database.": q.Noted(),
		"The group is the aggregate's type and id, separated by a colon.":                                                q.GroupByType,
	} {
		if holds {
			notes = append(notes, "- "+note)
		}
	}
	slices.Sort(notes)
	fmt.Fprintf(b, "\n%s\n", strings.Join(notes, "\n"))
}

// sentence begins a text with a capital letter.
func sentence(text string) string {
	return strings.ToUpper(text[:1]) + text[1:]
}

// rows writes a table of what is there.
func rows(b *strings.Builder, left, right string, rows [][2]string) {
	fmt.Fprintf(b, "\n| %s | %s |\n|---|---|\n", left, right)
	for _, r := range rows {
		if r[1] != "" {
			fmt.Fprintf(b, "| %s | `%s` |\n", r[0], r[1])
		}
	}
}

// settingsText writes the settings that differ from Outrider's own.
func settingsText(b *strings.Builder, p *layout.Preset) {
	d := p.Defaults
	every := func(d time.Duration) string {
		if d == 0 {
			return ""
		}
		return short(d)
	}
	number := func(n int) string {
		if n == 0 {
			return ""
		}
		return strconv.Itoa(n)
	}
	settings := [][2]string{{"`poll: {min, max}`", every(d.Poll)}, {"`poll: {batch}`", number(d.Batch)}, {"`claims: {in_memory}`", number(d.InMemory)},
		{"`claims: {timeout}`", every(d.Timeout)}, {"`claims: {recover}`", every(d.Recover)}}
	if d.Leader {
		settings = append(settings, [2]string{"`leader`", "true"})
	}
	if r := d.Retry; r != nil {
		text := fmt.Sprintf("attempts: %d, ", r.Attempts)
		switch {
		case r.NextPoll:
			text += "at the next poll, " + short(r.Base) + " after the failure at the earliest"
		case r.Linear:
			text += fmt.Sprintf("growth: linear, base: %s, max: %s, jitter: %v", short(r.Base), short(r.Max), r.Jitter)
		default:
			text += fmt.Sprintf("base: %s, max: %s, jitter: %v", short(r.Base), short(r.Max), r.Jitter)
		}
		settings = append(settings, [2]string{"`retry` without keys", text})
	}
	for _, s := range settings {
		if s[1] != "" {
			rows(b, "setting", "default with this layout", settings)
			return
		}
	}
}

// short is a duration without what is zero in it: 24h, not 24h0m0s.
func short(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}
