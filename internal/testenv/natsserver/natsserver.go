// Package natsserver gives tests NATS servers with JetStream: in the process of the test, or in one of its own, which can be killed.
// It is apart from package testenv so that only tests of NATS link a server.
package natsserver

import (
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/outriderhq/outrider/internal/testenv"
)

// patience limits how long a server takes to answer.
const patience = 30 * time.Second

// Start runs a server in this process until the test ends. change may alter its options; nil: JetStream on a free port.
func Start(tb testing.TB, change func(*server.Options)) *server.Server {
	tb.Helper()
	s, stop, err := Open(change)
	if err != nil {
		tb.Fatalf("natsserver: %v", err)
	}
	tb.Cleanup(stop)
	return s
}

// Open is [Start] for all tests of a package: TestMain calls it, and stop at the end.
func Open(change func(*server.Options)) (s *server.Server, stop func(), err error) {
	dir, err := os.MkdirTemp("", "nats")
	if err != nil {
		return nil, nil, err
	}
	opts := options(dir, server.RANDOM_PORT)
	if change != nil {
		change(opts)
	}
	if s, err = start(opts); err != nil {
		_ = os.RemoveAll(dir) // the error counts
		return nil, nil, err
	}
	return s, func() {
		s.Shutdown()
		s.WaitForShutdown()
		_ = os.RemoveAll(dir) // a folder for temporary files
	}, nil
}

func options(dir string, port int) *server.Options {
	return &server.Options{Host: "127.0.0.1", Port: port, JetStream: true, StoreDir: dir, NoLog: true, NoSigs: true}
}

func start(opts *server.Options) (*server.Server, error) {
	s, err := server.NewServer(opts)
	if err != nil {
		return nil, err
	}
	s.Start()
	if !s.ReadyForConnections(patience) {
		s.Shutdown()
		return nil, server.ErrServerNotRunning
	}
	return s, nil
}

// The variables by which a test's program runs as a server.
const (
	envDir  = "OUTRIDER_TEST_NATS_DIR"
	envPort = "OUTRIDER_TEST_NATS_PORT"
)

// Main runs a server instead of the tests if the program was started by [StartProcess], and does not return then. Call it first in
// TestMain of a package that uses StartProcess.
func Main() {
	if dir := os.Getenv(envDir); dir != "" {
		os.Exit(serve(dir)) //nolint:revive // this process is no test
	}
}

// serve runs a server until the test's process ends, and returns the exit code.
func serve(dir string) int {
	port, err := strconv.Atoi(os.Getenv(envPort))
	if err != nil {
		return 2
	}
	opts := options(dir, port)
	opts.SyncAlways = true
	if _, err := start(opts); err != nil {
		_, _ = os.Stderr.WriteString(err.Error() + "\n")
		return 2
	}
	_, _ = os.Stdout.WriteString("ready\n")
	_, _ = io.Copy(io.Discard, os.Stdin) // ends with the test's process
	return 0
}

// Process is a server in a process of its own.
type Process struct {
	tb        testing.TB
	dir, port string
	cmd       *exec.Cmd
	stdin     io.Closer
}

// StartProcess runs a server that writes everything to disk at once. The port stays the same when it is started again.
func StartProcess(tb testing.TB) *Process {
	tb.Helper()
	p := &Process{tb: tb, dir: tb.TempDir(), port: testenv.FreePort(tb)}
	p.Start()
	tb.Cleanup(p.Kill)
	return p
}

// Address is where it listens, as host:port.
func (p *Process) Address() string { return net.JoinHostPort("127.0.0.1", p.port) }

// URL is its nats:// URL.
func (p *Process) URL() string { return "nats://" + p.Address() }

// Start starts it again after [Process.Kill], with what it had stored.
func (p *Process) Start() {
	p.tb.Helper()
	program, err := os.Executable()
	if err != nil {
		p.tb.Fatalf("natsserver: %v", err)
	}
	cmd := exec.Command(program) //nolint:noctx // the test's own program; it lives until Kill
	cmd.Env = append(os.Environ(), envDir+"="+p.dir, envPort+"="+p.port)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		p.tb.Fatalf("natsserver: %v", err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		p.tb.Fatalf("natsserver: %v", err)
	}
	if err := cmd.Start(); err != nil {
		p.tb.Fatalf("natsserver: %v", err)
	}
	p.cmd, p.stdin = cmd, stdin
	if n, err := io.ReadFull(stdout, make([]byte, len("ready\n"))); err != nil {
		p.tb.Fatalf("natsserver: the server did not start: %d bytes, %v", n, err)
	}
}

// Kill ends it with SIGKILL; what it has not written is lost.
func (p *Process) Kill() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill() // it may have ended
	_ = p.cmd.Wait()
	_ = p.stdin.Close()
	p.cmd = nil
}
