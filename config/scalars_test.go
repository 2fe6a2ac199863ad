package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/outriderhq/outrider/config/internal/form"
)

// TestScalars reads texts and writes them back. An empty want is an error.
func TestScalars(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		into interface {
			form.Scalar
			fmt.Stringer
		}
		text, want string
	}{
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
		err := test.into.Parse(test.text)
		if got := test.into.String(); (err != nil) != (test.want == "") || err == nil && got != test.want {
			t.Errorf("%T of %q = %q, %v, want %q", test.into, test.text, got, err, test.want)
		}
	}
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
	e := Event{"order.created", "order", "acme", map[string]string{"region": "eu", "order_id": "7"}, map[string]string{"source": "shop"}}
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
		"header":         {Match{Headers: TagMatch{All: []Tag{{Key: "source", Value: "shop", HasValue: true}}}}, true},
		"no header":      {Match{Headers: TagMatch{Any: []Tag{region}}}, false},
		"all conditions": {Match{Types: []Glob{"*"}, Tags: TagMatch{Any: []Tag{us}}}, false},
	} {
		if got := test.match.Matches(e); got != test.want {
			t.Errorf("%s: %v", name, got)
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
		if err := new(SchemaName).Parse(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}
