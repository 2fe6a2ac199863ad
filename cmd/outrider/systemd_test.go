package main

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

// notifySocket is the socket of a service manager. Processes that the test starts learn its address.
func notifySocket(t *testing.T) *net.UnixConn {
	t.Helper()
	at := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: at, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = socket.Close() })
	t.Setenv("NOTIFY_SOCKET", at)
	return socket
}

// awaitState returns the first message with a state, and which states came before it.
func awaitState(t *testing.T, socket *net.UnixConn, state string) (message string, before []string) {
	t.Helper()
	for buffer := make([]byte, 4096); ; {
		n, err := socket.Read(buffer)
		if err != nil {
			t.Fatal(err)
		}
		message = string(buffer[:n])
		first, _, _ := strings.Cut(message, "\n")
		if first == state {
			return message, before
		}
		before = append(before, first)
	}
}

// Only WATCHDOG=1 may come between the states that the order of events demands.
func TestSystemdLearnsReadyReloadAndStop(t *testing.T) {
	socket := notifySocket(t)
	t.Setenv("WATCHDOG_USEC", "200000")
	s := newSite(t, toLog)
	s.must("init")
	p := s.start("run")
	want := func(state string, texts ...string) {
		t.Helper()
		message, before := awaitState(t, socket, state)
		for _, other := range before {
			if other != "WATCHDOG=1" {
				t.Errorf("%s came before %s", other, state)
			}
		}
		for _, text := range texts {
			if !strings.Contains(message, text) {
				t.Errorf("%q lacks %q", message, text)
			}
		}
	}
	want("READY=1", "STATUS=delivering 1 route")
	want("WATCHDOG=1")
	p.signal(syscall.SIGHUP)
	want("RELOADING=1", "\nMONOTONIC_USEC=", "\nSTATUS=reloading")
	want("READY=1", "STATUS=delivering 1 route")
	if err := os.WriteFile(s.config, []byte("routes: {orders: {from: nowhere}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.signal(syscall.SIGHUP)
	want("RELOADING=1", "\nMONOTONIC_USEC=")
	want("READY=1", "STATUS=reload failed, the former configuration is in effect: ")
	p.signal(syscall.SIGTERM)
	want("STOPPING=1", "STATUS=draining")
	if code := p.exit(); code != exitOK {
		t.Errorf("exit %d:\n%s", code, p.all())
	}
}

func TestTheWatchdogOfSystemdIsAnsweredOnlyWhileTheRelayIsAlive(t *testing.T) {
	socket := notifySocket(t)
	t.Setenv("WATCHDOG_USEC", "20000")
	var asked atomic.Int32
	alive := func(ctx context.Context) bool {
		if asked.Add(1) == 1 {
			<-ctx.Done() // as a main loop that hangs
		}
		return asked.Load() > 2
	}
	var log strings.Builder
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		supervisor{slog.New(slog.NewTextHandler(&log, nil))}.watch(ctx, alive)
	}()
	awaitState(t, socket, "WATCHDOG=1")
	cancel()
	<-ended
	if n := asked.Load(); n < 3 {
		t.Errorf("the watchdog was answered after %d questions, of which the first two found nothing alive", n)
	}
	if n := strings.Count(log.String(), "the main loop of the relay does not answer"); n != 2 {
		t.Errorf("%d lines say that the relay does not answer, want 2:\n%s", n, &log)
	}
}
