package mdb

import (
	"io"
	"net"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outriderhq/outrider/internal/testenv"
)

// The connection that watches the server is cut while a command waits for its own: the driver gives up both, and the command may be tried again.
func TestAnotherConnectionIsLost(t *testing.T) {
	t.Parallel()
	server, name := testenv.MongoDB(t)
	u, err := url.Parse(server)
	must(t, err)
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	var cut atomic.Bool
	go func() {
		first, err := l.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("tcp", u.Host)
		if err != nil {
			return
		}
		go func() { _, _ = io.Copy(to, first) }()
		go func() { _, _ = io.Copy(first, to) }()
		for { // nobody answers the others
			if _, err := l.Accept(); err != nil {
				return
			}
			time.AfterFunc(200*time.Millisecond, func() {
				cut.Store(true)
				_, _ = first.Close(), to.Close()
			})
		}
	}()
	s, err := Connection{URL: "mongodb://" + l.Addr().String() + "/?connectTimeoutMS=3000", Database: name}.Open()
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	_, err = s.Database(t.Context())
	if !cut.Load() || !Lost(err) {
		t.Errorf("cut: %v; not a lost connection: %v", cut.Load(), err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
