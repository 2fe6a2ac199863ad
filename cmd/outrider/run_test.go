package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/outriderhq/outrider/internal/testenv"
)

// process is a running outrider.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines chan string
	mu    sync.Mutex
	log   strings.Builder
	ended chan struct{}
}

// start runs a command with the site's configuration as a process of its own.
func (s *site) start(args ...string) *process {
	s.t.Helper()
	return s.startWith("", args...)
}

// startWith is start with something in the environment, as NAME=VALUE; empty: nothing.
func (s *site) startWith(env string, args ...string) *process {
	s.t.Helper()
	cmd := exec.Command(os.Args[0], append(args, "--config", s.config)...)
	cmd.Env = append(os.Environ(), asProgram+"=1", env)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	p := &process{t: s.t, cmd: cmd, lines: make(chan string, 1000), ended: make(chan struct{})}
	go p.read(stderr)
	s.t.Cleanup(func() {
		select {
		case <-p.ended:
		default:
			_ = cmd.Process.Kill()
			<-p.ended
			_ = cmd.Wait()
		}
	})
	return p
}

func (p *process) read(stderr io.Reader) {
	defer close(p.ended)
	defer close(p.lines)
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		p.mu.Lock()
		p.log.WriteString(lines.Text() + "\n")
		p.mu.Unlock()
		p.lines <- lines.Text()
	}
}

// await returns when the process has logged the text.
func (p *process) await(text string) {
	p.t.Helper()
	for line := range p.lines {
		if strings.Contains(line, text) {
			return
		}
	}
	p.t.Fatalf("the process ended without logging %q:\n%s", text, p.all())
}

func (p *process) all() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// signalUntilEnd repeats a signal: one that comes right after another is taken
// for the same request.
func (p *process) signalUntilEnd(s os.Signal) {
	p.t.Helper()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		select {
		case <-again.C:
			_ = p.cmd.Process.Signal(s) // it may have ended just now
		case <-p.ended:
			return
		}
	}
}

// exit waits for the end and returns the exit code.
func (p *process) exit() int {
	p.t.Helper()
	for range p.lines { // what is logged at the end
	}
	<-p.ended
	err := p.cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		p.t.Fatal(err)
	}
	return p.cmd.ProcessState.ExitCode()
}

const toLog = `destinations:
  console: {type: log}
routes:
  orders: {from: app, to: console}
`

func TestSIGTERMDrainsAndReleases(t *testing.T) {
	t.Parallel()
	s := newSite(t, toLog)
	s.must("init")
	p := s.start("run", "--instance", "number-one")
	p.await("outrider starts")
	if log := p.all(); !strings.Contains(log, "instance=number-one") || !strings.Contains(log, "version=") ||
		!strings.Contains(log, "routes=1") || !strings.Contains(log, "admin=off") {
		t.Errorf("the first line lacks something:\n%s", log)
	}
	p.await("ready")
	id := strings.TrimSpace(s.must("publish", "--type", "order.created", "--payload", "1"))
	p.await(id)
	if status := s.must("status"); !strings.Contains(status, "number-one") {
		t.Errorf("the owner is missing:\n%s", status)
	}
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != exitOK {
		t.Errorf("exit %d:\n%s", code, p.all())
	}
	if status := s.must("status", "--lanes"); strings.Contains(status, "number-one") || !strings.Contains(status, "(none)") {
		t.Errorf("the lanes were not released:\n%s", status)
	}
}

// startHanging starts a relay with this drain_timeout and returns when a delivery
// hangs, which it does to the end of the test.
func startHanging(t *testing.T, drain string) *process {
	t.Helper()
	asked, release := make(chan struct{}, 10), make(chan struct{})
	api := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked <- struct{}{}
		<-release
	}))
	t.Cleanup(api.Close)
	t.Cleanup(func() { close(release) })
	s := newSite(t, fmt.Sprintf("drain_timeout: %s\ndestinations:\n  api: {type: http, url: %q}\nroutes:\n  orders: {from: app, to: api}\n", drain, api.URL))
	s.must("init")
	s.must("publish", "--type", "a", "--payload", "1")
	p := s.start("run")
	<-asked
	return p
}

func TestASecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	p := startHanging(t, "1h")
	p.signal(syscall.SIGINT)
	p.await("a second signal ends the process at once")
	p.signalUntilEnd(syscall.SIGTERM)
	if code := p.exit(); code != exitFailed {
		t.Errorf("exit %d, want %d", code, exitFailed)
	}
	if !strings.Contains(p.all(), "outrider: ended by a second signal") {
		t.Errorf("the reason is missing:\n%s", p.all())
	}
}

// A drain that does not end in time is no clean one: the exit status and the last
// words tell.
func TestG3_ADrainThatIsCutOffIsToldByTheExitStatus(t *testing.T) {
	t.Parallel()
	p := startHanging(t, "100ms")
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != exitFailed {
		t.Errorf("exit %d, want %d", code, exitFailed)
	}
	log := p.all()
	if !strings.Contains(log, "outrider: the drain was cut off after 100ms (drain_timeout) with 1 message in flight: route orders (1, in orders/") {
		t.Errorf("what was cut off is missing:\n%s", log)
	}
	if strings.Contains(log, "stopped: all results are written down") {
		t.Errorf("the log says that nothing is left:\n%s", log)
	}
}

func TestTwoSignalsAtOnceAreOneRequest(t *testing.T) {
	t.Parallel()
	s := newSite(t, toLog)
	s.must("init")
	p := s.start("run")
	p.await("ready")
	p.signal(syscall.SIGTERM)
	p.signal(syscall.SIGINT)
	if code := p.exit(); code != exitOK {
		t.Errorf("exit %d:\n%s", code, p.all())
	}
}

func TestG11_SIGHUPReloadsAValidFileOnly(t *testing.T) {
	t.Parallel()
	s := newSite(t, toLog)
	s.must("init")
	p := s.start("run")
	p.await("ready")
	p.signal(syscall.SIGHUP)
	p.await("SIGHUP: reloaded")
	s.write("sources: {}\n")
	p.signal(syscall.SIGHUP)
	p.await("has errors; this process keeps its configuration")
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != exitOK {
		t.Errorf("exit %d:\n%s", code, p.all())
	}
}

func TestLogLevelAndFormatAreObeyed(t *testing.T) {
	t.Parallel()
	s := newSite(t, "log: {level: error, format: json}\n"+toLog)
	s.must("init")
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // starts and drains at once
	if got := call(ctx, "", "run", "--config", s.config); got.err != "" {
		t.Errorf("level error logs: %v", got)
	}
	got := call(ctx, "", "run", "--config", s.config, "--log-level", "info")
	if !strings.HasPrefix(got.err, `{"time":`) {
		t.Errorf("not JSON: %v", got)
	}
}

func TestASecondInstanceOnSQLiteIsRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t, toLog)
	s.must("init")
	p := s.start("run")
	p.await("ready")
	step{args: "run", code: 1, err: []string{"another instance is running on this database", fmt.Sprintf("pid %d", p.cmd.Process.Pid)}}.run(t, s)
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != exitOK {
		t.Errorf("exit %d:\n%s", code, p.all())
	}
}

// A server that takes connections and says nothing is not waited for without end.
func TestNobodyWaitsForASilentDatabase(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0") // the kernel takes the connections; nobody ever answers
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	s := newSite(t, "")
	s.write(fmt.Sprintf("admin: {listen: off}\nsources:\n  app: {type: postgres, url: 'postgres://me@%s/db?sslmode=disable&connect_timeout=1'}\n%s",
		l.Addr(), toDiscard))
	for _, args := range []string{"run", "init", "publish --type a --payload 1"} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			step{args: args, code: 1, err: []string{`source "app"`, l.Addr().String(), "no answer in time"}}.run(t, s)
		})
	}
	t.Run("status", func(t *testing.T) {
		t.Parallel()
		step{args: "status", code: 1, err: []string{`route "orders"`, l.Addr().String(), "no answer in time"}}.run(t, s)
	})
}

// run says at its start what is missing in PostgreSQL.
func TestRunNamesAMissingTableColumnOrPrivilege(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t)
	s := newSite(t, "")
	s.write(fmt.Sprintf("admin: {listen: off}\nsources:\n  app: {type: postgres, url: %q}\n%s", url, toDiscard))
	exec := func(query string) { t.Helper(); runSQL(t, url, query) }

	step{args: "run", code: 1, err: []string{"outrider_outbox", "does not exist", "outrider init"}}.run(t, s)
	step{args: "status", code: 1, err: []string{"the state tables do not exist yet", "`outrider init`"}}.run(t, s)
	if got := s.call("status").err; strings.Contains(got, "call Migrate") {
		t.Errorf("the advice is for programs, or given twice: %s", got)
	}
	step{args: "init", out: []string{"outrider_outbox", "created the state tables"}}.run(t, s)
	step{args: "publish --type a --payload 1 --id one", out: []string{"one\n"}}.run(t, s)
	step{args: "status", out: []string{"(has never run)"}}.run(t, s)

	exec("ALTER TABLE outrider_outbox RENAME COLUMN tenant_id TO tenant")
	step{args: "run", code: 1, err: []string{"outrider_outbox", "tenant_id"}}.run(t, s)
	exec("ALTER TABLE outrider_outbox RENAME COLUMN tenant TO tenant_id")

	role := fmt.Sprintf("outrider_cli_%d", os.Getpid())
	exec("CREATE ROLE " + role + " LOGIN")
	defer exec("DROP ROLE " + role)
	other := strings.Replace(url, "postgres://postgres@", "postgres://"+role+"@", 1)
	if other == url {
		t.Skipf("the test server's user is not postgres, so its URL cannot be made another user's")
	}
	s.write(fmt.Sprintf("admin: {listen: off}\nsources:\n  app: {type: postgres, url: %q}\n%s", other, toDiscard))
	step{args: "run", code: 1, err: []string{"GRANT", "outrider_outbox"}}.run(t, s)
}
