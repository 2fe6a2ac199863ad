package operate

import (
	"strings"
	"testing"
)

// A name cannot be taken for another caller's, and never hides the token.
func TestG12_ANameDoesNotHideTheToken(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"alice":               "alice by API, token 1a2b3c4d",
		"":                    "unnamed by API, token 1a2b3c4d",
		"bob, token ffffffff": `"bob, token ffffffff" by API, token 1a2b3c4d`,
		"bob\n2026":           `"bob\n2026" by API, token 1a2b3c4d`,
	} {
		if got := (Caller{Token: "1a2b3c4d"}).Author(name); got != want {
			t.Errorf("the author of %q is %q, want %q", name, got, want)
		}
	}
	for _, r := range []string{"a", "é", "\x00", "\U000e0001"} {
		long := strings.Repeat(r, 2000)
		for _, got := range []string{(Caller{Token: "1a2b3c4d"}).Author(long), (Caller{Token: "1a2b3c4d", Name: long}).PageAuthor()} {
			if n := len(got); n > 1000 || got[n-8:] != "1a2b3c4d" {
				t.Errorf("%q: the author has %d bytes and ends with %q", r, n, got[n-8:])
			}
		}
	}
}
