package main

import (
	"strings"
	"testing"

	"github.com/outriderhq/outrider/admin/action"
)

// Every action has a command, which records its author; a command that ends something for good asks before.
func TestEveryActionHasACommand(t *testing.T) {
	t.Parallel()
	root := (&app{}).rootCommand()
	without := map[string]string{"probe": "of one instance", "reload": "SIGHUP does it", "seek-routes": "seek takes one route"}
	for _, a := range action.All {
		if a.Command == "" {
			if without[a.Name] == "" {
				t.Errorf("no command does %s", a.Name)
			}
			continue
		}
		c, rest, err := root.Find(strings.Fields(a.Command))
		if err != nil || len(rest) > 0 || c.RunE == nil {
			t.Errorf("%s: there is no command %s: %v", a.Name, a.Command, err)
			continue
		}
		if c.Flags().Lookup("by") == nil {
			t.Errorf("outrider %s names no author", a.Command)
		}
	}
}
