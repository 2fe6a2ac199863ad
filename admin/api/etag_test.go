package api_test

import (
	"io"
	"net/http"
	"testing"
)

// A client that has an answer gets 304 until it is another one.
func TestAnswersThatHaveNotChangedAreNotSentAgain(t *testing.T) {
	t.Parallel()
	s := onSQLite(t)
	get := func(tag string) (status int, etag, body string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.relay.AdminAddress()+"/api/v1/parked?status=dead", http.NoBody)
		must(t, err)
		r.Header.Set("Authorization", "Bearer "+tokens["read"])
		if tag != "" {
			r.Header.Set("If-None-Match", tag)
		}
		answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
		must(t, err)
		defer func() { _ = answer.Body.Close() }()
		text, err := io.ReadAll(answer.Body)
		must(t, err)
		return answer.StatusCode, answer.Header.Get("ETag"), string(text)
	}
	status, tag, body := get("")
	if status != http.StatusOK || tag == "" || body == "" {
		t.Fatalf("%d, ETag %q, %q", status, tag, body)
	}
	if status, again, body := get(`"other", ` + tag); status != http.StatusNotModified || again != tag || body != "" {
		t.Errorf("what has not changed is answered with %d, ETag %q instead of %q, %q", status, again, tag, body)
	}
	s.publish("bad-1", `{"customer": "bad"}`)
	s.until("bad-1 is dead", func() bool { return s.count(parkedSQL+" WHERE status = 'dead'") == 1 })
	if status, other, _ := get(tag); status != http.StatusOK || other == tag {
		t.Errorf("what has changed is answered with %d, ETag %q", status, other)
	}
}
