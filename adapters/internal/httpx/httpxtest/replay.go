// Package httpxtest has the tests that all destinations over HTTP share.
package httpxtest

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
)

// Connections is how many requests the destination of [ReplayedOnceAtMost] may have under way.
const Connections = 16

// ReplayedOnceAtMost tests that a receiver that ends the connection after its work gets the message twice at most in one attempt, however many
// kept-alive connections there are, and whether it has a body or not. The function that destination returns sends one message, and the header
// Idempotency-Key has its id.
func ReplayedOnceAtMost(t *testing.T, destination func(t *testing.T, url string) func(id, payload string) error) {
	t.Helper()
	for body, payload := range map[string]string{"a body": "{}", "no body": ""} {
		t.Run(body, func(t *testing.T) {
			t.Parallel()
			var warm sync.WaitGroup
			warm.Add(Connections)
			var died atomic.Int32
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Idempotency-Key") != "dies" {
					warm.Done()
					warm.Wait() // all of them at once, each on a connection of its own
					return
				}
				died.Add(1)
				if err := hangUp(w); err != nil {
					t.Error(err)
				}
			}))
			t.Cleanup(s.Close)
			send := destination(t, s.URL)
			var done sync.WaitGroup
			for range Connections {
				done.Go(func() {
					if err := send("warm", payload); err != nil {
						t.Error(err)
					}
				})
			}
			done.Wait()
			if err := send("dies", payload); err == nil {
				t.Error("no error")
			}
			if n := died.Load(); n < 1 || n > 2 {
				t.Errorf("the message arrived %d times, want twice at most", n)
			}
		})
	}
}

// hangUp ends the connection without an answer.
func hangUp(w http.ResponseWriter) error {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return err
	}
	return conn.Close()
}
