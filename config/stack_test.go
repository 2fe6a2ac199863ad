package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// stackOf parses a file with a route of a layout, which has the keys of route.
func stackOf(t *testing.T, layout, route string) ([]Middleware, *Config) {
	t.Helper()
	cfg, err := Parse("stack.yaml", []byte("sources: {app: {type: postgres, url: 'postgres://127.0.0.1/shop', layout: "+layout+
		"}}\ndestinations: {log: {type: log}}\nroutes: {all: {from: app, to: log"+route+"}}\n"), testEnv)
	if err != nil {
		t.Fatalf("%s%s: %v", layout, route, err)
	}
	return cfg.Routes[0].Middleware, cfg
}

// A kind without a place would be outermost.
func TestEveryMiddlewareHasAPlace(t *testing.T) {
	t.Parallel()
	if kinds, places := slices.Sorted(slices.Values(middlewares.Names())), slices.Sorted(slices.Values(stackOrder)); !slices.Equal(kinds, places) {
		t.Errorf("stackOrder has places for %v, and the kinds are %v", places, kinds)
	}
}

// The layouts of the systems with a retry of their own keep it, and what becomes of dead messages, beside middleware that is added, and
// where a list names retry and poison without keys.
func TestMiddlewareIsAddedToTheStackOfALayout(t *testing.T) {
	t.Parallel()
	dedupe := &Dedupe{Window: Duration(24 * time.Hour), Store: DedupeSQL}
	for layout, want := range map[string]struct {
		attempts int
		then     string
	}{
		"flowcatalyst": {4, "continue"}, "flowcatalyst-v2": {3, "continue"}, "crablet": {3, "hold"}, "crablet-v2": {3, "hold"},
		"yantra": {1_000_000, "continue"}, "yantra-v2": {4, "continue"}, "outbox-framework": {10, "continue"},
		"talkie": {5, "continue"}, "open-outbox": {25, "continue"},
	} {
		usual, _ := stackOf(t, layout, "")
		if n, then := usual[1].(*Retry).Attempts, usual[0].(*Poison).Then; n != want.attempts || then != want.then {
			t.Errorf("%s: %d attempts, then: %s, want %+v", layout, n, then, want)
		}
		for _, route := range []string{
			", middleware: {add: [dedupe: 24h]}", ", middleware: [dedupe: 24h, poison, retry, timeout]",
			", middleware: [dedupe: {window: 24h}, poison: {}, retry: {}, timeout: {}]",
		} {
			got, cfg := stackOf(t, layout, route)
			if !reflect.DeepEqual(got, append([]Middleware{dedupe}, usual...)) {
				t.Errorf("%s%s: %+v", layout, route, got)
			}
			if found := slices.Concat(cfg.Notes, cfg.Warnings); mentions(found, "leaves out") {
				t.Errorf("%s%s: %v", layout, route, found)
			}
		}
		_, cfg := stackOf(t, layout, ", middleware: [dedupe: 24h]")
		said := cfg.Warnings
		if want.attempts == 10 {
			said = cfg.Notes // as by default: nothing is lost
		}
		if !mentions(said, "leaves out poison, retry, timeout of the default stack") ||
			mentions(said, fmt.Sprintf("after 10 attempts, with that of layout %s after %d", layout, want.attempts)) != (want.attempts != 10) ||
			mentions(said, "with that of layout "+layout+" it is held") != (want.then == "hold") {
			t.Errorf("%s: a list without retry: %v", layout, said)
		}
		if _, cfg := stackOf(t, layout, ", middleware: [poison, retry: {base: 5s}, timeout]"); mentions(cfg.Notes, "of layout "+layout) != (want.attempts != 10) {
			t.Errorf("%s: retry without attempts: %v", layout, cfg.Notes)
		}
	}
}

func mentions(list []*Error, text string) bool {
	for _, e := range list {
		if strings.Contains(e.Message, text) {
			return true
		}
	}
	return false
}

// Of an own table a list leaves something out as well, which no warning is needed for.
func TestValidateSaysWhatAListLeavesOut(t *testing.T) {
	t.Parallel()
	for route, want := range map[string]string{
		", middleware: [dedupe: 24h, poison]": "leaves out retry, timeout of the default stack", ", middleware: {add: [breaker]}": "", "": "",
	} {
		_, cfg := stackOf(t, "outrider", route)
		if want == "" && len(cfg.Notes) > 0 || want != "" && !mentions(cfg.Notes, want) || mentions(cfg.Warnings, "leaves out") {
			t.Errorf("%s: notes %v, warnings %v", route, cfg.Notes, cfg.Warnings)
		}
	}
}

// What a configuration built in Go says goes before the layout, also where it is the usual default; a zero value says nothing.
func TestLayersInGoHaveTheValuesOfTheLayout(t *testing.T) {
	t.Parallel()
	build := func(stack ...Middleware) []Middleware {
		t.Helper()
		cfg, err := Build(Config{
			Sources:      map[string]Source{"app": &Postgres{URL: NewSecretURL("postgres://127.0.0.1/shop"), TableSource: TableSource{Layout: "crablet"}}},
			Destinations: map[string]Destination{"log": &LogTo{}},
			Routes:       []Route{{Name: "all", From: "app", Targets: []string{"log"}, Middleware: stack}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return cfg.Routes[0].Middleware
	}
	if got := build(&Poison{}, &Retry{}); got[0].(*Poison).Then != "hold" || got[1].(*Retry).Attempts != 3 {
		t.Errorf("zero values: %+v, %+v", got[0], got[1])
	}
	if got := build(&Poison{Then: "continue"}, &Retry{Attempts: 10}); got[0].(*Poison).Then != "continue" || got[1].(*Retry).Attempts != 10 {
		t.Errorf("given values: %+v, %+v", got[0], got[1])
	}
}
