package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A request commits a user and its event, which is handled without waiting for a poll; one that is rolled back leaves neither.
func TestARequestPublishesInItsTransaction(t *testing.T) {
	t.Parallel()
	lines, out := io.Pipe()
	a, err := newApp(t.Context(), filepath.Join(t.TempDir(), "users.db"), out)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = a.db.Close() }() // reads are over
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.relay.Run(ctx) }()
	select {
	case <-a.relay.Ready():
	case err := <-ended:
		t.Fatal(err)
	}
	server := httptest.NewServer(a.handler())
	defer server.Close()
	for name, want := range map[string]int{"": http.StatusBadRequest, "heron": http.StatusCreated} {
		resp, err := http.Post(server.URL+"/users?name="+name, "", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != want {
			t.Errorf("%q: status %d, want %d", name, resp.StatusCode, want)
		}
		_ = resp.Body.Close()
	}
	const want = "welcome, heron (user 1)\n"
	got := make([]byte, len(want))
	if _, err := io.ReadFull(lines, got); err != nil || string(got) != want {
		t.Errorf("the listener wrote %q, %v", got, err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	var users, events int
	if err := a.db.QueryRow(`SELECT (SELECT count(*) FROM users), (SELECT count(*) FROM outbox_event WHERE status = 1)`).Scan(&users, &events); err != nil || users != 1 || events != 1 {
		t.Errorf("%d users and %d delivered events, %v", users, events, err)
	}
}
