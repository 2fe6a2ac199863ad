package pg

import (
	"testing"
)

// A name with a line break would end a comment of printed SQL, and what is behind it
// would run.
func TestNamesHaveNoControlCharacters(t *testing.T) {
	t.Parallel()
	for _, c := range []string{"\n", "\r", "\x00", "\t", "\x7f", "\u0085", "\x1b"} {
		hostile := `a` + c + `DROP TABLE orders; --`
		if _, err := ParseTable(`"` + hostile + `"`); err == nil {
			t.Errorf("table %q is accepted", hostile)
		}
	}
}
