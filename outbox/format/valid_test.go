package format

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func TestG7_DeeplyNestedJSONIsRefusedAndEndsNothing(t *testing.T) {
	t.Parallel()
	nested := func(n int) []byte { return []byte(strings.Repeat("[", n) + strings.Repeat("]", n)) }
	for n, want := range map[int]bool{1: true, MaxDepth: true, MaxDepth + 1: false, 20 << 20: false} {
		if got := ValidJSON(nested(n)); got != want {
			t.Errorf("nested %d deep: %t, want %t", n, got, want)
		}
	}
	if wide := []byte("[" + strings.Repeat("{},", 2*MaxDepth) + "[]]"); !ValidJSON(wide) {
		t.Error("many objects beside each other are refused")
	}
	if ValidJSON(bytes.Repeat([]byte(`{"a":`), 5<<20)) {
		t.Error("objects without an end are valid")
	}
}

// What is valid is what encoding/json says.
func FuzzValidJSON(f *testing.F) {
	for _, s := range []string{
		"", " ", "null", "nul", "nulll", "true", "false ", "0", "-0", "-", "01", "1.", ".5", "1.5e", "1e+5", "1E-05", "-1.25e+17",
		`""`, `"`, `"\u00e9"`, `"\u00g0"`, `"\ud800"`, `"\x"`, "\"a\tb\"", "\"\x7f\"", "\"\xff\"", "\xef\xbb\xbf{}",
		"{}", "{ }", `{"a"}`, `{"a":}`, `{"a":1,}`, `{"a":1 "b":2}`, `{a:1}`, `{"a":[1,{"b":null}],"c":"d"}`,
		"[]", "[1,]", "[,1]", "[1 2]", "[1,2]x", "[[]", "]", "[\v]", "\u00a0{}", "[1]\n\r\t ", "{}{}", "Infinity", "NaN", "+1", "0x10",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if got, want := ValidJSON(b), json.Valid(b); got != want {
			t.Errorf("%q: %t, encoding/json says %t", b, got, want)
		}
	})
}
