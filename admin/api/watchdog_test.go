package api_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
)

// A foreign hand puts a cursor back under a running relay, which knows nothing of it: the tables say that rows are not
// settled, and the overview and the metric say so, until the relay settles its lane again.
func TestG13_TheWatchdogBelievesTheTables(t *testing.T) {
	t.Parallel()
	s := onPostgres(t, "lease: 1m\n", "watchdog: 1s\n") // an instance that lost its lanes would read from the cursors again
	s.publish("a", `{"customer": "kind"}`)
	s.until("a is settled", func() bool {
		return s.took.Load() == 1 && s.count(`SELECT count(*) FROM outrider_cursor WHERE position > 0`) >= 1
	})
	cause := func() string {
		_, route := s.ask("read", "GET", "/routes/orders", "")
		text, _ := json.Marshal(route["cause"])
		return string(text)
	}
	metric := func() string {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.relay.AdminAddress()+"/metrics", http.NoBody)
		must(t, err)
		req.Header.Set("Authorization", "Bearer "+tokens["read"])
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		resp, err := client.Do(req)
		must(t, err)
		defer func() { _ = resp.Body.Close() }()
		text, err := io.ReadAll(resp.Body)
		must(t, err)
		return string(text)
	}
	s.until("the watchdog has seen it settled", func() bool {
		return strings.Contains(metric(), `outrider_overdue_rows{cause="stuck",route="orders"} 0`)
	})
	if n := s.count(`WITH back AS (UPDATE outrider_cursor SET position = 0 RETURNING 1) SELECT count(*) FROM back`); n != 16 {
		t.Fatalf("%d cursors were put back", n)
	}
	s.until("the cause is stuck", func() bool {
		text := cause()
		return strings.Contains(text, `"kind":"stuck"`) && strings.Contains(text, "the first one is a, position ")
	})
	if text := metric(); !strings.Contains(text, `outrider_overdue_rows{cause="stuck",route="orders"} 1`) {
		t.Error("the metric does not say so")
	}
	s.publish("a", `{"customer": "kind"}`) // of the same group, so of the same lane
	s.until("all is well", func() bool { return strings.Contains(cause(), `"kind":"fine"`) })
}
