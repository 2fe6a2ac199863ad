package docs

import (
	"reflect"
	"testing"
)

const sample = "# Title\n\nText with `outrider status`.\n\n    outrider init   # comment\n    $ outrider publish --payload '{\"a\": 1}' > x\n\n    a: b\n\n" +
	"```yaml\nsources: {}\n```\n\n```\njq . | outrider publish -\n```\n- item\n    no code\n"

func TestBlocksAreFencedOrIndented(t *testing.T) {
	t.Parallel()
	want := []Block{
		{5, "", "outrider init   # comment\n$ outrider publish --payload '{\"a\": 1}' > x\n\na: b\n"},
		{11, "yaml", "sources: {}\n"},
		{15, "", "jq . | outrider publish -\n"},
	}
	if got := (Page{Text: sample}).Blocks(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestCommandsAreSplitLikeAShellDoes(t *testing.T) {
	t.Parallel()
	want := []Command{
		{5, []string{"init"}, true},
		{6, []string{"publish", "--payload", `{"a": 1}`}, true},
		{15, []string{"publish", "-"}, true},
		{3, []string{"status"}, false},
	}
	if got := (Page{Text: sample}).Commands(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
