package config

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestScalars reads texts and writes them back. An empty want is an error.
func TestScalars(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		into interface {
			scalar
			fmt.Stringer
		}
		text, want string
	}{
		{new(Duration), "30s", "30s"}, {new(Duration), "1h30m", "1h30m"}, {new(Duration), "7d", "7d"},
		{new(Duration), "1d12h", "36h"}, {new(Duration), "1.5s", "1.5s"}, {new(Duration), "0s", "0s"},
		{new(Duration), "60s", "1m"}, {new(Duration), "3600s", "1h"}, {new(Duration), "100us", "100µs"},
		{new(Duration), "", ""}, {new(Duration), "5", ""}, {new(Duration), "-5s", ""}, {new(Duration), "1w", ""},
		{new(Duration), "999999d", ""}, {new(Duration), "99999999999h", ""}, {new(Duration), "106751d24h", ""},
		{new(Size), "64MiB", "64MiB"}, {new(Size), "1MB", "1000000B"}, {new(Size), "1.5KiB", "1536B"}, {new(Size), "0B", "0B"},
		{new(Size), "64", ""}, {new(Size), "64M", ""}, {new(Size), "-1B", ""}, {new(Size), "999999999999999TiB", ""},
		{new(Rate), "500/s", "500/s"}, {new(Rate), "30/m", "30/m"}, {new(Rate), "1000/h", "1000/h"},
		{new(Rate), "0/s", ""}, {new(Rate), "500", ""}, {new(Rate), "5/d", ""},
		{new(Start), "beginning", "beginning"}, {new(Start), "end", "end"}, {new(Start), "2026-01-31T08:00:00+01:00", "2026-01-31T08:00:00+01:00"},
		{new(Start), "2026-01-31", ""}, {new(Start), "now", ""},
		{new(Glob), "order.*", "order.*"}, {new(Glob), "a b", ""}, {new(Glob), "a?", ""}, {new(Glob), "", ""},
		{new(Tag), "region", "region"}, {new(Tag), "region=eu=1", "region=eu=1"}, {new(Tag), "=x", ""}, {new(Tag), "", ""},
		{new(Table), "outbox", "outbox"}, {new(Table), "shop.outbox", "shop.outbox"}, {new(Table), "a.b.c", ""}, {new(Table), "a;b", ""},
		{new(StatusCode), "409", "409"}, {new(StatusCode), "100", ""}, {new(StatusCode), "4xx", ""},
		{new(StatusAction), "skip", "skip"}, {new(StatusAction), "drop", ""},
		{new(Template), "x-{{.Type}}", "x-{{.Type}}"}, {new(Template), `{{index .Tags "region"}}`, `{{index .Tags "region"}}`},
		{new(Template), "{{slice .ID 0 2}}", "{{slice .ID 0 2}}"}, {new(Template), "{{if .Group}}a{{else}}{{.Grp}}{{end}}", ""},
		{new(Template), "{{.X}}", ""}, {new(Template), "{{", ""}, {new(Template), `{{define "x"}}{{end}}`, ""},
		{new(Template), "{{with .Tags}}{{range .}}{{end}}{{end}}", ""},
	} {
		err := test.into.parse(test.text)
		if got := test.into.String(); (err != nil) != (test.want == "") || err == nil && got != test.want {
			t.Errorf("%T of %q = %q, %v, want %q", test.into, test.text, got, err, test.want)
		}
	}
}

func TestDurationRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := Duration(rapid.Int64Range(0, int64(1000*24*time.Hour)).Draw(t, "ns"))
		var got Duration
		if err := got.parse(want.String()); err != nil || got != want {
			t.Fatalf("%d writes %q, which reads %d, %v", want, want, got, err)
		}
	})
}

func TestSizeRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := Size(rapid.Int64Range(0, 1<<44).Draw(t, "bytes"))
		var got Size
		if err := got.parse(want.String()); err != nil || got != want {
			t.Fatalf("%d writes %q, which reads %d, %v", want, want, got, err)
		}
	})
}

func TestGlobMatch(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		glob, text string
		want       bool
	}{
		{"order.*", "order.created", true},
		{"order.*", "order.line.added", true},
		{"order.*", "order.", true},
		{"order.*", "order", false},
		{"order.*", "reorder.x", false},
		{"*", "", true},
		{"order", "order", true},
		{"order", "orders", false},
		{"*.created", "order.created", true},
		{"*.created", "order.created.x", false},
		{"a*b*c", "a-b-c", true},
		{"a*b*c", "abc", true},
		{"a*b*c", "acb", false},
		{"a*a", "a", false},
		{"aa*aa", "aaa", false},
		{"**", "x", true},
	} {
		if got := Glob(test.glob).Match(test.text); got != test.want {
			t.Errorf("%q matches %q = %v", test.glob, test.text, got)
		}
	}
}

func TestMatches(t *testing.T) {
	t.Parallel()
	e := Event{"order.created", "order", "acme", map[string]string{"region": "eu", "order_id": "7"}}
	region, us := Tag{Key: "region"}, Tag{Key: "region", Value: "us", HasValue: true}
	eu := Tag{Key: "region", Value: "eu", HasValue: true}
	for name, test := range map[string]struct {
		match Match
		want  bool
	}{
		"everything":     {Match{}, true},
		"type":           {Match{Types: []Glob{"x", "order.*"}}, true},
		"other type":     {Match{Types: []Glob{"x"}}, false},
		"aggregate":      {Match{AggregateTypes: []Glob{"cart"}}, false},
		"tenant":         {Match{Tenants: []Glob{"ac*"}}, true},
		"other tenant":   {Match{Tenants: []Glob{"b*"}}, false},
		"all tags":       {Match{Tags: TagMatch{All: []Tag{region, eu}}}, true},
		"not all tags":   {Match{Tags: TagMatch{All: []Tag{region, us}}}, false},
		"any tag":        {Match{Tags: TagMatch{Any: []Tag{us, region}}}, true},
		"not any tag":    {Match{Tags: TagMatch{Any: []Tag{us}}}, false},
		"all conditions": {Match{Types: []Glob{"*"}, Tags: TagMatch{Any: []Tag{us}}}, false},
	} {
		if got := test.match.Matches(e); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestNearest(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"tabel": "table", "tabl": "table", "Table": "table", "url": "", "attepmts": "attempts", "x": "", "": "",
	} {
		if got := nearest(name, []string{"table", "layout", "attempts"}); got != want {
			t.Errorf("nearest(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestNamesOfSchemasAreAsInSQL(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"": "", "Outrider_State": "outrider_state", `"My State"`: "My State"} {
		if got := SchemaName(text).Exact(); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	for _, text := range []string{"a.b", `"a`, `"a"b"`, "a b", "\x00", strings.Repeat("x", 64)} {
		if err := new(SchemaName).parse(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}
