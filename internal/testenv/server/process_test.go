package server

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shell starts a shell script as a server would be started.
func shell(t *testing.T, script string) *process {
	t.Helper()
	p, err := launch(command{
		path: "/bin/sh",
		args: []string{"-c", script},
		dir:  t.TempDir(),
		env:  os.Environ(),
		log:  filepath.Join(t.TempDir(), "log"),
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestEndWaitsForChildrenAfterTheProcessWasKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	mark, up, let := filepath.Join(dir, "mark"), filepath.Join(dir, "up"), filepath.Join(dir, "let")
	if err := errors.Join(syscall.Mkfifo(up, 0o600), syscall.Mkfifo(let, 0o600)); err != nil {
		t.Fatal(err)
	}
	// The child writes its mark only after it was let go, long after its parent.
	p := shell(t, "(echo up > "+up+"; read go < "+let+"; echo done > "+mark+") & wait")
	if _, err := os.ReadFile(up); err != nil { // blocks until the child is up
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- p.end(syscall.SIGKILL) }()
	<-p.exited
	if err := os.WriteFile(let, []byte("go\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(mark); err != nil {
		t.Errorf("end returned before the child had ended: %v", err)
	}
}

func TestAwaitReadyReportsTheLogOfAServerThatExits(t *testing.T) {
	t.Parallel()
	p := shell(t, "echo the disk is full; exit 1")
	err := awaitReady(t.Context(), "Server", p, func(context.Context) error { return errors.New("no answer") })
	if err == nil || !strings.Contains(err.Error(), "Server exited") || !strings.Contains(err.Error(), "the disk is full") {
		t.Errorf("got error %v, want the name and the log", err)
	}
	<-p.gone
}

func TestLaunchOfAMissingProgramFails(t *testing.T) {
	t.Parallel()
	_, err := launch(command{path: "/nonexistent/postgres", dir: t.TempDir(), log: filepath.Join(t.TempDir(), "log")})
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got error %v, want that the program does not exist", err)
	}
}

func TestFreePortsAreDifferent(t *testing.T) {
	t.Parallel()
	ports, err := FreePorts(t.Context(), 50)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for _, port := range ports {
		if seen[port] || port < lowestPort || port >= highestPort {
			t.Errorf("port %d came twice or is out of range", port)
		}
		seen[port] = true
	}
}

func TestClusterIDsNeverLookLikeFlags(t *testing.T) {
	t.Parallel()
	for range 1000 {
		if id := clusterID(); len(id) != 22 || id[0] < 'A' || id[0] > 'Z' {
			t.Fatalf("cluster id %q", id)
		}
	}
}
