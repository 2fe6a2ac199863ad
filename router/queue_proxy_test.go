package router

import (
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// wire is a proxy in front of a database: it delays what passes, swallows answers,
// and refuses or cuts connections.
type wire struct {
	listener   net.Listener
	server     string
	delay      time.Duration // each way
	refusing   atomic.Bool
	swallowing atomic.Bool // what the server answers
	work       sync.WaitGroup

	mu    sync.Mutex
	conns []net.Conn
}

// newWire starts a proxy and returns it with the URL to use.
func newWire(t *testing.T, database string, delay time.Duration) (w *wire, through string) {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w = &wire{listener: l, server: u.Host, delay: delay}
	w.work.Go(w.accept)
	t.Cleanup(func() {
		_ = l.Close()
		w.cut()
		w.work.Wait()
	})
	u.Host = l.Addr().String()
	return w, u.String()
}

// cut ends all connections.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.conns {
		_ = c.Close()
	}
	w.conns = nil
}

func (w *wire) accept() {
	for {
		client, err := w.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", w.server)
		if err != nil || w.refusing.Load() {
			_ = client.Close()
			if err == nil {
				_ = server.Close()
			}
			continue
		}
		w.mu.Lock()
		w.conns = append(w.conns, client, server)
		w.mu.Unlock()
		w.work.Go(func() { w.pass(server, client, false) })
		w.work.Go(func() { w.pass(client, server, true) })
	}
}

// pass copies what comes, each piece after the delay.
func (w *wire) pass(to, from net.Conn, answers bool) {
	defer func() { _ = to.Close() }()
	buffer := make([]byte, 1<<18)
	for {
		n, err := from.Read(buffer)
		if w.delay > 0 {
			time.Sleep(w.delay)
		}
		if answers && w.swallowing.Load() {
			n = 0
		}
		if _, wrong := to.Write(buffer[:n]); err != nil || wrong != nil {
			return
		}
	}
}
