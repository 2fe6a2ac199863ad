package testenv

import (
	"net"
	"strconv"
	"testing"

	"github.com/outriderhq/outrider/internal/testenv/server"
)

// FreePort returns a port of this machine on which nothing listens, for a server that the test starts, and may start again. It is below the
// range that the system gives to outgoing connections.
func FreePort(tb testing.TB) string {
	tb.Helper()
	ports, err := server.FreePorts(tb.Context(), 1)
	if err != nil {
		tb.Fatalf("testenv: %v", err)
	}
	return strconv.Itoa(ports[0])
}

// FreeAddress returns the loopback address (host:port) of a [FreePort].
func FreeAddress(tb testing.TB) string {
	tb.Helper()
	return net.JoinHostPort("127.0.0.1", FreePort(tb))
}

// Refused returns an address (host:port) of this machine that refuses connections until the test ends. A port that was
// merely free could be given to another process, for example to a server of another test. This one is in use, by one end
// of a connection.
func Refused(tb testing.TB) string {
	tb.Helper()
	l, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatalf("testenv: %v", err)
	}
	tb.Cleanup(func() { _ = l.Close() }) // nothing is written to it
	conn, err := new(net.Dialer).DialContext(tb.Context(), "tcp", l.Addr().String())
	if err != nil {
		tb.Fatalf("testenv: %v", err)
	}
	tb.Cleanup(func() { _ = conn.Close() })
	return conn.LocalAddr().String()
}
