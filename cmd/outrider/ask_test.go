package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/outriderhq/outrider/internal/testenv"
)

// secured is a configuration with an admin server that asks for a token.
func (s *site) secured(address, routes string) {
	s.t.Helper()
	tokens := filepath.Join(s.t.TempDir(), "tokens")
	if err := os.WriteFile(tokens, []byte(strings.Repeat("t", 40)+"\n"), 0o600); err != nil {
		s.t.Fatal(err)
	}
	s.write(fmt.Sprintf("lease: 1s\nadmin: {listen: %q, tokens_file: %q}\nsources:\n  app: {type: sqlite, path: %q}\n%s", address, tokens, s.db, routes))
}

// What answers at the admin address gets no token, and shows nothing, unless it has our state store.
func TestG12_CommandsTrustNoOtherRelay(t *testing.T) {
	t.Parallel()
	down := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	defer down.Close()
	toDown := fmt.Sprintf("destinations:\n  api: {type: http, url: %q}\nroutes:\n  orders: {from: app, to: api}\n", down.URL)
	t.Run("no relay", func(t *testing.T) {
		t.Parallel()
		var tokens atomic.Int64
		other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "" {
				tokens.Add(1)
			}
			w.Header().Set("Outrider-Proof", "0123456789abcdef")
			_, _ = fmt.Fprint(w, `{"routes": [{"route": "orders", "stopped": "as a stranger says"}], "places": [{"text": "as a stranger says"}]}`)
		}))
		defer other.Close()
		s := newSite(t, toDown)
		s.secured(strings.TrimPrefix(other.URL, "http://"), toDown)
		s.must("init")
		s.must("publish", "--type", "a", "--payload", "1", "--id", "one")
		for _, args := range []string{"status", "event one", "doctor"} {
			r := s.call(strings.Fields(args)...)
			if strings.Contains(r.out+r.err, "stranger") || args != "doctor" && !strings.Contains(r.err, "did not prove that it has this state store") {
				t.Errorf("%s: %v", args, r)
			}
		}
		if n := tokens.Load(); n != 0 {
			t.Errorf("it got the token %d times", n)
		}
	})
	t.Run("another installation", func(t *testing.T) {
		t.Parallel()
		mine, other, address := newSite(t, toDown), newSite(t, toDown), testenv.FreeAddress(t)
		for _, s := range []*site{mine, other} {
			s.secured(address, toDown)
			s.must("init")
			s.must("publish", "--type", "a", "--payload", "1", "--id", "one")
		}
		p := other.start("run", "--instance", "relay")
		p.await("address is down")
		if r := other.call("status"); !strings.Contains(r.out, "has been unavailable since") || r.err != "" {
			t.Errorf("beside its own relay: %v", r)
		}
		if r := other.call("event", "one"); !strings.Contains(r.out, "in flight at relay") {
			t.Errorf("beside its own relay: %v", r)
		}
		r := mine.call("status")
		if strings.Contains(r.out, "unavailable") || !strings.Contains(r.err, "did not prove") {
			t.Errorf("beside another relay: %v", r)
		}
		if r := mine.call("event", "one"); strings.Contains(r.out, "in flight") || !strings.Contains(r.out, "in the table") || !strings.Contains(r.err, "did not prove") {
			t.Errorf("beside another relay: %v", r)
		}
		p.signal(syscall.SIGTERM)
		p.exit()
	})
}

// A route of another configuration on the same state store is none of ours, and its numbers are shown all the same.
func TestRoutesOfAnotherConfiguration(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t)
	with := func(route string) *site {
		s := newSite(t, "")
		s.write(fmt.Sprintf("lease: 1s\nadmin: {listen: off}\nsources:\n  app: {type: postgres, url: %q}\ndestinations:\n  out: {type: discard}\nroutes:\n  %s: {from: app, to: out}\n", url, route))
		return s
	}
	a, b := with("a"), with("b")
	a.must("init")
	first, second := a.start("run"), b.start("run", "--instance", "other-relay")
	first.await("ready")
	second.await("ready")
	step{args: "status", out: []string{"b  ", "not-configured", "route b: not in this configuration; run by other-relay"}}.run(t, a)
	if r := a.call("status"); strings.Contains(r.out, "failing") || strings.Contains(r.out, "fix the database") {
		t.Errorf("the other's route fails: %v", r)
	}
	second.signal(syscall.SIGTERM)
	second.exit()
	step{args: "status --state not-configured", out: []string{"no live instance runs it", "outrider route forget b"}}.run(t, a)
	a.must("route", "forget", "b", "--yes")
	for limit := time.Now().Add(time.Minute); strings.Contains(a.must("status"), "not-configured"); {
		if time.Now().After(limit) {
			t.Fatal("the forgotten route is still shown")
		}
	}
	first.signal(syscall.SIGTERM)
	first.exit()
}

// An empty part is refused: it would be the whole route.
func TestAnEmptyPartIsNotTheRoute(t *testing.T) {
	t.Parallel()
	s := newSite(t, toDiscard)
	s.must("init")
	for _, command := range []string{"pause", "resume"} {
		for _, flag := range []string{"--group", "--address"} {
			if r := s.call(command, "orders", flag, ""); r.code != exitWrong || !strings.Contains(r.err, flag+" is empty") {
				t.Errorf("%s %s: %v", command, flag, r)
			}
		}
	}
}
