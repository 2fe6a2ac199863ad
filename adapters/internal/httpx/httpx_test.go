package httpx

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/outriderhq/outrider/outbox"

	"github.com/ThreeDotsLabs/watermill/message"
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

// A receiver's date is one of its own clock, which its answer says.
func TestRetryAfterIsByTheClockOfTheReceiver(t *testing.T) {
	t.Parallel()
	ours := time.Date(2026, 1, 2, 5, 0, 0, 0, time.UTC) // two hours ahead
	const at = "Fri, 02 Jan 2026 03:05:05 GMT"
	for date, want := range map[string]time.Duration{"Fri, 02 Jan 2026 03:04:05 GMT": time.Minute, "": 0, "today": 0} {
		if got := retryAfter(at, clockOf(http.Header{"Date": {date}}, ours)); got != want {
			t.Errorf("Retry-After %s with Date %q is %v, want %v", at, date, got, want)
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

// A value of a message stays in its segment, however often a server on the way decodes it.
func TestValuesOfAMessageChangeNoPath(t *testing.T) {
	t.Parallel()
	target, err := NewTarget("https://api.example.com/tenants/{{.Tenant}}/events?t={{.Tenant}}")
	if err != nil {
		t.Fatal(err)
	}
	address := func(tenant string) (string, error) {
		msg := message.NewMessage("id", nil)
		msg.Metadata[outbox.MetaTenant] = tenant
		return target.Address(msg)
	}
	for _, tenant := range []string{".", "..", "../admin", "a/b", `a\b`, "..;", "%2e%2e", "%2E%2e%2fadmin", "%252e%252e", "%252f", "%5c", "a\nb", "a\x00", "a%0d%0a", "\u0085"} {
		if got, err := address(tenant); outbox.KindOf(err) != outbox.KindPermanent || !strings.Contains(err.Error(), "the value") {
			t.Errorf("tenant %q leads to %s, %v", tenant, got, err)
		}
	}
	for tenant, want := range map[string]string{
		"acme": "acme", "a.b": "a.b", "...": "...", "..a": "..a", "é ;?#": "%C3%A9%20%3B%3F%23", "50%": "50%25", "a%41": "a%2541",
	} {
		if got, err := address(tenant); err != nil || !strings.HasPrefix(got, "https://api.example.com/tenants/"+want+"/events?") {
			t.Errorf("tenant %q leads to %s, %v", tenant, got, err)
		}
	}
}
