package queuetable

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/queue"
	"github.com/outriderhq/outrider/adapters/layout"
)

var update = flag.Bool("update", false, "write testdata/statements.sql")

// TestStatements compares the statements for each layout with testdata/statements.sql: what a change does to the SQL is read there.
func TestStatements(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	mapped := customLayout()
	mapped.Tables = []Table{{Name: `Out "{Box}"`}}
	for _, p := range append(layout.All(), &layout.Preset{Name: "custom", Queue: &mapped}) {
		if p.Queue == nil || queue.Validate(p.Queue, "SQLite") != nil {
			continue
		}
		types := defined(p.Queue)
		for _, c := range p.Queue.All() {
			types[strings.ToLower(c.Name)] = cmp.Or(types[strings.ToLower(c.Name)], "text")
		}
		s := newStatements(newTable(p.Queue.Tables[0], p.Queue, adapters.DefaultMaxRow), types)
		for _, i := range s.indexes() {
			i.there = true
		}
		s.build()
		fmt.Fprintf(&b, "-- # %s\n%s", p.Name, s)
	}
	compare(t, b.String())
}

// instant is a time that a statement has in its text.
var instant = regexp.MustCompile(`'20\d\d-[^']*'|\b1\d{12}\b`)

// String lists the statements with their names.
func (s *statements) String() string {
	var b strings.Builder
	add := func(name, text string) {
		if text != "" {
			fmt.Fprintf(&b, "-- %s\n%s\n", name, instant.ReplaceAllString(text, "<now>"))
		}
	}
	for v, i := reflect.ValueOf(s).Elem(), 0; i < v.NumField(); i++ {
		if v.Field(i).Kind() == reflect.String {
			add(v.Type().Field(i).Name, v.Field(i).String())
		}
	}
	add("Done", s.Done)
	add("Retry", s.Retry)
	add("Put", s.Put)
	for _, status := range slices.Sorted(maps.Keys(s.Dead)) {
		add("Dead "+status, s.Dead[status])
	}
	add("Redrive", s.Redrive().Text)
	add("Grouped", s.Grouped())
	for state, name := range []string{"Unfinished", "Dead", "Delivered"} {
		add("Aged "+name, s.Aged(queue.State(state)))
	}
	after := s.After(adapters.DeadKey{Created: "c", Key: "k"})
	add("After", fmt.Sprint(after.Text, " ", after.Args))
	for _, i := range s.indexes() {
		add("index "+i.name, i.create)
	}
	return b.String()
}

func compare(t *testing.T, text string) {
	t.Helper()
	const golden = "testdata/statements.sql"
	if *update {
		must(t, os.MkdirAll(filepath.Dir(golden), 0o750))
		must(t, os.WriteFile(golden, []byte(text), 0o600))
	}
	want, err := os.ReadFile(golden)
	must(t, err)
	got, expected := strings.Split(text, "\n"), strings.Split(string(want), "\n")
	for i := range max(len(got), len(expected)) {
		if i >= len(got) || i >= len(expected) || got[i] != expected[i] {
			t.Fatalf("the statements differ from %s in line %d; compare them with -update and git diff", golden, i+1)
		}
	}
}
