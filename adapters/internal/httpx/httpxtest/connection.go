package httpxtest

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// Timeout is that of the destinations of [ConnectionsEnd].
const Timeout = 3 * time.Second

// ConnectionsEnd tests that a connection that says nothing more holds no message for longer than the timeout, and that the next one gets another
// connection. The function that destination returns sends one message.
func ConnectionsEnd(t *testing.T, destination func(t *testing.T, url string, trust *tls.Config) (send func(id string) error)) {
	t.Helper()
	t.Run("another protocol", func(t *testing.T) {
		t.Parallel()
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(func() { _ = conn.Close() })
			_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		}))
		t.Cleanup(s.Close)
		send, answered := destination(t, s.URL, nil), make(chan error, 1)
		go func() { answered <- send("a") }()
		select {
		case err := <-answered:
			if err == nil {
				t.Error("the message counts as delivered")
			}
		case <-time.After(10 * Timeout):
			t.Error("the delivery does not end")
		}
	})
	t.Run("HTTP/2", func(t *testing.T) {
		t.Parallel()
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		s.EnableHTTP2 = true
		s.StartTLS()
		t.Cleanup(s.Close)
		balancer := forgetful(t, s.Listener.Addr().String())
		trust := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
		trust.RootCAs.AddCert(s.Certificate())
		send := destination(t, "https://"+balancer.Addr().String(), trust)
		if err := send("a"); err != nil {
			t.Fatal(err)
		}
		balancer.forget()
		if err := send("b"); err == nil {
			t.Error("a message was delivered over a connection that passes nothing")
		}
		if err := send("c"); err != nil {
			t.Errorf("the next message: %v", err)
		}
	})
}

// balancer passes connections on, and forgets them without a word.
type balancer struct {
	net.Listener
	mu    sync.Mutex
	conns []net.Conn
	mute  map[net.Conn]bool
}

func forgetful(t *testing.T, server string) *balancer {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &balancer{Listener: l, mute: map[net.Conn]bool{}}
	var work sync.WaitGroup
	t.Cleanup(func() {
		_ = l.Close()
		b.mu.Lock()
		for _, conn := range b.conns {
			_ = conn.Close()
		}
		b.mu.Unlock()
		work.Wait()
	})
	work.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			to, err := new(net.Dialer).DialContext(t.Context(), "tcp", server)
			if err != nil {
				_ = from.Close()
				continue
			}
			b.mu.Lock()
			b.conns = append(b.conns, from, to)
			b.mu.Unlock()
			work.Go(func() { _, _ = io.Copy(passed{from, to, b}, to) })
			work.Go(func() { _, _ = io.Copy(passed{to, from, b}, from) })
		}
	})
	return b
}

// forget passes nothing on of the connections that there are.
func (b *balancer) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, conn := range b.conns {
		b.mute[conn] = true
	}
}

// passed is what a connection writes to another one.
type passed struct {
	to, from net.Conn
	*balancer
}

func (p passed) Write(data []byte) (int, error) {
	p.mu.Lock()
	mute := p.mute[p.from]
	p.mu.Unlock()
	if mute {
		return len(data), nil
	}
	return p.to.Write(data)
}
