package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/outriderhq/outrider/adapters/layout"
)

var update = flag.Bool("update", false, "write testdata again; read the difference")

// golden compares a text with a file of testdata, or writes it there.
func golden(t *testing.T, name, text string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if text == string(want) {
		return
	}
	now, before := strings.Split(text, "\n"), strings.Split(string(want), "\n")
	for i, line := range now {
		if i >= len(before) || line != before[i] {
			t.Fatalf("%s:%d is no longer so; if that is meant: go test ./cmd/outrider -run %s -update\nnow: %s", file, i+1, t.Name(), line)
		}
	}
	t.Fatalf("%s has %d lines more; if they are to go: go test ./cmd/outrider -run %s -update", file, len(before)-len(now), t.Name())
}

// People and their scripts rely on the help of each command.
func TestGoldenHelp(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	var help func(c *cobra.Command)
	help = func(c *cobra.Command) {
		if c.Hidden || c.Name() == "help" || c.Name() == "completion" {
			return
		}
		shown := call(t.Context(), "", append(strings.Fields(c.CommandPath())[1:], "--help")...)
		fmt.Fprintf(&text, "### %s\n%s\n", c.CommandPath(), shown.out)
		for _, sub := range c.Commands() {
			help(sub)
		}
	}
	help((&app{}).rootCommand())
	golden(t, "help.txt", text.String())
}

// The tables, indexes and grants of every layout in every database, and those of every state, are those that users have.
func TestGoldenInit(t *testing.T) {
	t.Parallel()
	urls := []struct{ database, key, url, state string }{
		{"postgres", "url", "postgres://relay@localhost:1/shop", "postgres://relay@localhost:1/shop"},
		{"mysql", "url", "mysql://relay@localhost:1/shop", "mysql://relay@localhost:1/shop"},
		{"mongodb", "url", "mongodb://localhost:1/shop", "sqlite:state.db"},
		{"sqlite", "path", "shop.db", "sqlite:state.db"},
	}
	layouts := []string{"outrider"}
	for _, p := range layout.All() {
		layouts = append(layouts, p.Name)
	}
	var text strings.Builder
	var states []string
	for _, u := range urls {
		for _, layout := range layouts {
			s := newSite(t, "")
			table := ""
			if layout == "watermill" {
				table = ", table: watermill_orders"
			}
			s.write(fmt.Sprintf("admin: {listen: off}\nstate: {url: %q}\nsources:\n  shop: {type: %s, %s: %q, layout: %s%s}\n"+
				"destinations:\n  nowhere: {type: discard}\nroutes:\n  all: {from: shop, to: nowhere}\n", u.state, u.database, u.key, u.url, layout, table))
			printed := call(t.Context(), "", "init", "--print", "--notify", "-c", s.config)
			if printed.code != exitOK {
				if !strings.Contains(printed.err, "must be") {
					t.Errorf("%s in %s: %s", layout, u.database, printed)
				}
				continue // a layout that this database does not have
			}
			source, state, _ := strings.Cut(printed.out, "\n-- state\n")
			fmt.Fprintf(&text, "-- %s in %s\n%s\n", layout, u.database, source)
			if !slices.Contains(states, state) {
				states = append(states, state)
			}
		}
	}
	for _, state := range states {
		fmt.Fprintf(&text, "-- state\n%s\n", state)
	}
	golden(t, "init.sql", text.String())
}
