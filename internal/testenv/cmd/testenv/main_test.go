package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/outriderhq/outrider/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTheCommandsStatusIsOurs(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]int{
		"exit 0":        0,
		"exit 7":        7,
		"kill -TERM $$": exitSignal + int(syscall.SIGTERM),
	} {
		if got := runCommand([]string{"sh", "-c", script}, nil); got != want {
			t.Errorf("%s: status %d, want %d", script, got, want)
		}
	}
	if got := runCommand([]string{"/nonexistent/command"}, nil); got != exitFailure {
		t.Errorf("missing command: status %d, want %d", got, exitFailure)
	}
}

func TestSignalsReachTheWholeCommandOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ready, count := filepath.Join(dir, "ready"), filepath.Join(dir, "count")
	if err := syscall.Mkfifo(ready, 0o600); err != nil {
		t.Fatal(err)
	}
	// Parent and child each note every signal that they get.
	child := "trap 'echo child >> " + count + "; exit' TERM; echo up > " + ready + "; while :; do sleep 0.01; done"
	parent := "trap 'echo parent >> " + count + "; wait; exit 5' TERM; sh -c \"" + child + "\" & wait"
	signals := make(chan syscall.Signal)
	status := make(chan int, 1)
	go func() { status <- runCommand([]string{"sh", "-c", parent}, signals) }()
	if _, err := os.ReadFile(ready); err != nil { // blocks until the child is up
		t.Fatal(err)
	}
	signals <- syscall.SIGTERM
	if got := <-status; got != 5 {
		t.Errorf("status %d, want the parent's 5", got)
	}
	text, err := os.ReadFile(count)
	if err != nil {
		t.Fatal(err)
	}
	for _, who := range []string{"parent", "child"} {
		if got := strings.Count(string(text), who); got != 1 {
			t.Errorf("%s got the signal %d times, want once", who, got)
		}
	}
}

func TestASecondSignalKills(t *testing.T) {
	t.Parallel()
	up := filepath.Join(t.TempDir(), "up")
	if err := syscall.Mkfifo(up, 0o600); err != nil {
		t.Fatal(err)
	}
	signals := make(chan syscall.Signal)
	status := make(chan int, 1)
	go func() {
		status <- runCommand([]string{"sh", "-c", "trap '' TERM; echo up > " + up + "; while :; do sleep 1; done"}, signals)
	}()
	if _, err := os.ReadFile(up); err != nil {
		t.Fatal(err)
	}
	signals <- syscall.SIGTERM
	signals <- syscall.SIGTERM
	if got, want := <-status, exitSignal+int(syscall.SIGKILL); got != want {
		t.Errorf("status %d, want %d", got, want)
	}
}

func TestWithoutACommandTheUsageIsShown(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {"--"}, {"-nosuchflag"}} {
		if got := run(args); got != exitUsage {
			t.Errorf("%q: status %d, want %d", args, got, exitUsage)
		}
	}
}

func TestGivenServersAreNeitherStartedNorStopped(t *testing.T) {
	t.Setenv("CI", "")
	for _, k := range kinds {
		t.Setenv(k.variable, "given:1")
	}
	s := servers{kinds: kinds}
	if err := s.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(s.ours) != 0 {
		t.Errorf("started %d servers although all were given", len(s.ours))
	}
	if got := os.Getenv(testenv.EnvKafka); got != "given:1" {
		t.Errorf("%s became %q", testenv.EnvKafka, got)
	}
}

func TestServersAreChosenByName(t *testing.T) {
	t.Setenv("CI", "")
	t.Setenv(testenv.EnvKafka, "given:1")
	chosen, err := kindsNamed("kafka")
	if err != nil {
		t.Fatal(err)
	}
	s := servers{kinds: chosen}
	if err := s.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(s.ours) != 0 {
		t.Errorf("started %d servers that were not named", len(s.ours))
	}
	if _, err := kindsNamed("Kafka,Oracle"); err == nil || !strings.Contains(err.Error(), `no server "Oracle"; there are PostgreSQL, MariaDB`) {
		t.Errorf("got %v", err)
	}
}
