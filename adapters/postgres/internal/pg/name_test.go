package pg

import (
	"strings"
	"testing"
)

func TestParseTable(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"outbox":            `"outbox"`,
		"App.OutBox":        `"app"."outbox"`,
		`"App"."Out.Box"`:   `"App"."Out.Box"`,
		`app."say ""hi"""`:  `"app"."say ""hi"""`,
		`"x; DROP TABLE y"`: `"x; DROP TABLE y"`,
	} {
		got, err := ParseTable(in)
		if err != nil || got.Sanitize() != want {
			t.Errorf("%s: %s, %v; want %s", in, got.Sanitize(), err, want)
		}
	}
	for _, in := range []string{"", ".", "a.", ".a", "a..b", "a.b.c", `"a`, `"a"b`, `"a".`, `""`, "a b", "a;b", `a"b`, strings.Repeat("x", 64), "\"a\x00\"", "\"\xff\""} {
		if got, err := ParseTable(in); err == nil {
			t.Errorf("%q was read as %s", in, got.Sanitize())
		}
	}
}
