package httpx

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/outriderhq/outrider/outbox"
)

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"":                              0,
		"7":                             7 * time.Second,
		"-7":                            0,
		"soon":                          0,
		"99999999999999":                maxRetryAfter,
		"999999999999999999999999":      0,
		"Fri, 02 Jan 2026 03:05:05 GMT": time.Minute,
		"Fri, 02 Jan 2026 03:00:00 GMT": 0,
	} {
		if got := retryAfter(value, now); got != want {
			t.Errorf("Retry-After %q is %v, want %v", value, got, want)
		}
	}
}

func TestStatuses(t *testing.T) {
	t.Parallel()
	s := NewStatuses(DefaultStatuses(), map[int]outbox.Kind{404: outbox.KindPermanent}, []int{409})
	for status, want := range map[int]bool{200: true, 204: true, 299: true, 409: true, 302: false, 404: false, 500: false} {
		if s.Success(status) != want {
			t.Errorf("status %d is success: %v, want %v", status, !want, want)
		}
	}
	for status, want := range map[int]outbox.Kind{
		304: outbox.KindUnavailable, 404: outbox.KindPermanent, 410: outbox.KindGone,
		451: outbox.KindPermanent, 503: outbox.KindUnavailable, 599: outbox.KindTransient,
	} {
		if got := s.Kind(status); got != want {
			t.Errorf("status %d is %v, want %v", status, got, want)
		}
	}
	if DefaultStatuses()[404] != outbox.KindUnavailable {
		t.Error("an override changed the defaults")
	}
	if errs := CheckStatuses(map[int]outbox.Kind{200: outbox.KindGone, 409: outbox.KindReleased}, []int{600}); len(errs) != 3 {
		t.Errorf("CheckStatuses finds %v, want three problems", errs)
	}
}

func TestQuote(t *testing.T) {
	t.Parallel()
	r := NewRedactor([]string{"abc", "secret", "secret-long"})
	for _, test := range []struct {
		body  string
		limit int
		want  string
	}{
		{"", 10, ""},
		{"anything", 0, ""},
		{"a\r\n\tb\x00\x1b[31mc", 31, "a b [31mc"},
		{"x \u202e y \ufeff z \u009b", 31, "x y z"},
		{"secret-long and secret and abc", 100, "[redacted] and [redacted] and abc"},
		{"bad \xff\xfe", 31, "bad \ufffd"},
		{strings.Repeat("é", 20), 31, strings.Repeat("é", 15) + "..."},
	} {
		if got := r.Quote([]byte(test.body), test.limit); got != test.want {
			t.Errorf("Quote(%q) = %q, want %q", test.body, got, test.want)
		}
	}
}

// A secret that is cut off where reading ended is not found as a whole.
func TestReadCutsNoSecret(t *testing.T) {
	t.Parallel()
	o := Outcome{Secrets: NewRedactor([]string{"secret", "cretonne"})}
	for text, want := range map[string]string{
		"1234567": "1234567", "1234sec...": "1234", "1secret...": "1", "123cret...": "123", "short": "short", "a-secre": "a-",
	} {
		if got := o.Read(strings.NewReader(text), 7); string(got) != want {
			t.Errorf("of %q remains %q, want %q", text, got, want)
		}
	}
}

func TestLocation(t *testing.T) {
	t.Parallel()
	r := NewRedactor(nil)
	for location, want := range map[string]string{
		"":                              "",
		"/new?key=1#x":                  "/new",
		"https://u:p@other.example/a?b": "https://other.example/a",
		"http://[broken":                "",
	} {
		if got := r.Location(location); got != want {
			t.Errorf("Location(%q) = %q, want %q", location, got, want)
		}
	}
	if got := hint(http.StatusFound, "/new"); !strings.Contains(got, "not followed") || !strings.Contains(got, "/new") {
		t.Errorf("hint of a redirect: %q", got)
	}
}

func TestTarget(t *testing.T) {
	t.Parallel()
	target, err := NewTarget("https://me:p%40ss@example.com:8443/a/b?x=1&key=value%21")
	if err != nil {
		t.Fatal(err)
	}
	if got := target.Base().String(); got != "https://example.com:8443" {
		t.Errorf("base %q", got)
	}
	if got := target.Full("https://example.com:8443/a/b"); got != "https://example.com:8443/a/b?x=1&key=value%21" {
		t.Errorf("full URL %q", got)
	}
	secrets := strings.Join(target.Secrets(), " ")
	for _, want := range []string{"p@ss", "value%21", "value!", "bWU6cEBzcw=="} { // me:p@ss
		if !strings.Contains(secrets, want) {
			t.Errorf("%q does not count as a secret: %q", want, secrets)
		}
	}
}
