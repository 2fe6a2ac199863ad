package main

import (
	"io"
	"strings"
	"testing"

	"github.com/outriderhq/outrider/internal/docs"
)

// Every call of the program that README.md and docs/ show is one that it
// understands: command, flags, their values and, in blocks of code, arguments.
func TestDocumentedCommandsExist(t *testing.T) {
	t.Parallel()
	pages, err := docs.Pages("../..")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, p := range pages {
		for _, c := range p.Commands() {
			found++
			if problem := misunderstood(c); problem != "" {
				t.Errorf("%s:%d: outrider %s: %s", p.Path, c.Line, strings.Join(c.Args, " "), problem)
			}
		}
	}
	if found < 30 {
		t.Errorf("found %d calls only", found)
	}
}

// misunderstood says what the program would not understand of a call.
func misunderstood(c docs.Command) string {
	a := &app{in: strings.NewReader(""), out: io.Discard, err: io.Discard}
	root := a.rootCommand()
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	command, rest, err := root.Find(c.Args)
	if err != nil {
		return err.Error()
	}
	if err := command.ParseFlags(rest); err != nil {
		return err.Error()
	}
	args := command.Flags().Args()
	if command.HasSubCommands() && len(args) > 0 {
		return "there is no such command"
	}
	if !c.Whole || !command.Runnable() {
		return ""
	}
	if err := command.ValidateArgs(args); err != nil {
		return err.Error()
	}
	return ""
}

func TestCallsThatAreNotUnderstoodAreFound(t *testing.T) {
	t.Parallel()
	for call, wrong := range map[string]bool{
		"": false, "run": false, "status -o json": false, "parked redrive --rate 100/s --yes": false, "help run": false,
		"runs": true, "run --fast": true, "parked lost": true, "status -o xml": true, "pause": true,
		"parked redrive --limit few": true, "seek orders": false,
	} {
		if got := misunderstood(docs.Command{Args: strings.Fields(call), Whole: true}); (got != "") != wrong {
			t.Errorf("%q: got %q", call, got)
		}
	}
}
