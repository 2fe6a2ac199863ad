package main

import (
	"database/sql"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/outriderhq/outrider/internal/testenv"
)

// probed is a configuration whose relay answers nothing but probes.
func (s *site) probed(address, rest string) {
	s.t.Helper()
	s.write(fmt.Sprintf("admin: {listen: off, probes: %q}\nsources:\n  app: {type: sqlite, path: %q, poll: {min: 10ms, max: 20ms}}\n%s", address, s.db, rest))
}

// probe asks, and compares exit status and text.
func (s *site) probe(code int, says string, args ...string) {
	s.t.Helper()
	got := s.call(append([]string{"probe"}, args...)...)
	if got.code != code || !strings.Contains(got.out+got.err, says) {
		s.t.Fatalf("probe %v: %v; want exit %d and %q", args, got, code, says)
	}
}

// probeUntil asks until the exit status is this one, or for a minute.
func (s *site) probeUntil(code int, args ...string) {
	for end := time.Now().Add(time.Minute); s.call(append([]string{"probe"}, args...)...).code != code && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond)
	}
}

func TestProbeAsksTheRelayThatRuns(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	port := testenv.FreePort(t)
	s.probed("0.0.0.0:"+port, toDiscard)
	s.must("init")
	s.probe(exitFailed, "connection refused")
	p := s.start("run")
	p.await("ready")
	s.probe(exitOK, "ok")
	s.probe(exitOK, "ok", "--live")
	s.probe(exitOK, "ok", "--url", "http://127.0.0.1:"+port+"/")

	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	s.probeUntil(exitFailed, "--live", "--timeout", "200ms") // all its threads have stopped
	s.probe(exitFailed, "no answer from http://127.0.0.1:"+port+"/livez within 200ms", "--live", "--timeout", "200ms")
	if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	s.probe(exitOK, "ok", "--live", "--timeout", "1m")

	// Errors elsewhere in the file say nothing about the relay that runs.
	s.probed("0.0.0.0:"+port, "destinations: {out: {type: http, url: \"${NOT_SET}\"}}\nroutes: {}\n")
	s.probe(exitOK, "ok")
	p.signal(syscall.SIGHUP)
	p.await("this process keeps its configuration")
	s.probe(exitOK, "ok")

	// The address is that of the start, until the next one.
	s.probed(testenv.FreeAddress(t), toDiscard)
	p.signal(syscall.SIGHUP)
	p.await("the section admin has changed")
	s.probe(exitOK, "ok", "--url", "http://127.0.0.1:"+port)
	s.probe(exitFailed, "connection refused")
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != exitOK {
		t.Errorf("exit %d:\n%s", code, p.all())
	}
}

// A relay that cannot read its table is live, and not ready for a reason.
func TestProbeSaysWhyARelayIsNotReady(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	s.probed(testenv.FreeAddress(t), toDiscard)
	s.must("init")
	p := s.start("run")
	p.await("ready")
	db, err := sql.Open("sqlite", s.db)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := db.ExecContext(t.Context(), "PRAGMA busy_timeout = 60000; ALTER TABLE outrider_outbox RENAME TO away"); err != nil {
		t.Fatal(err)
	}
	s.probeUntil(exitFailed)
	s.probe(exitFailed, "503 Service Unavailable: a source cannot be read (route orders and", "--ready")
	s.probe(exitOK, "ok", "--live")
}

func TestProbeThatCannotAsk(t *testing.T) {
	t.Parallel()
	elsewhere := httptest.NewServer(http.RedirectHandler("/login", http.StatusSeeOther))
	t.Cleanup(elsewhere.Close)
	for name, c := range map[string]struct {
		admin, says string
		args        []string
		code        int
	}{
		"off":        {"{listen: off}", "add probes: 127.0.0.1:8081", nil, exitFailed},
		"port 0":     {"{listen: \"127.0.0.1:0\"}", "the relay chooses the port", nil, exitFailed},
		"wrong":      {"{listen: off, probes: here}", "admin.probes: expected an address as host:port", nil, exitFailed},
		"no mapping": {"{listen: off", "cannot tell where to ask", nil, exitFailed},
		"redirect":   {"{listen: off}", "303 See Other", []string{"--url", elsewhere.URL}, exitFailed},
		"no URL":     {"{listen: off}", "no relay answers", []string{"--url", "127.0.0.1"}, exitFailed},
		"both":       {"{listen: off}", "exclude each other", []string{"--live", "--ready"}, exitWrong},
		"argument":   {"{listen: off}", "takes no argument", []string{"now"}, exitWrong},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, "")
			s.write("admin: " + c.admin + "\n")
			s.probe(c.code, c.says, c.args...)
		})
	}
	if got := call(t.Context(), "", "probe", "-c", filepath.Join(t.TempDir(), "none.yaml")); got.code != exitFailed || !strings.Contains(got.err, "does not exist") {
		t.Errorf("no file: %v", got)
	}
}
