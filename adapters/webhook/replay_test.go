package webhook

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
)

// A receiver that ends the connection after its work gets the message twice at most in one attempt, however many kept-alive connections there
// are, and whether it has a body or not.
func TestAnAttemptIsReplayedOnceAtMost(t *testing.T) {
	t.Parallel()
	for body, payload := range map[string]string{"a body": "{}", "no body": ""} {
		t.Run(body, func(t *testing.T) {
			t.Parallel()
			const connections = 16
			var warm sync.WaitGroup
			warm.Add(connections)
			var died atomic.Int32
			s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Idempotency-Key") != "dies" {
					warm.Done()
					warm.Wait() // all of them at once, each on a connection of its own
					return
				}
				died.Add(1)
				panic(http.ErrAbortHandler)
			}))
			t.Cleanup(s.Close)
			d := destination(t, Config{URL: s.URL, Format: "raw"})
			message := func(id string) error {
				msg := newMessage(id, "g")
				msg.Payload = []byte(payload)
				return one(t, d, msg)
			}
			var done sync.WaitGroup
			for range connections {
				done.Go(func() {
					if err := message("warm"); err != nil {
						t.Error(err)
					}
				})
			}
			done.Wait()
			if err := message("dies"); err == nil {
				t.Error("no error")
			}
			if n := died.Load(); n < 1 || n > 2 {
				t.Errorf("the message arrived %d times, want twice at most", n)
			}
		})
	}
}
