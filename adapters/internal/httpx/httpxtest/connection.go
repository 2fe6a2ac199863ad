package httpxtest

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// Timeout is that of the destinations of [ConnectionsEnd].
const Timeout = 3 * time.Second

// Balancer stands between a destination and its receiver. Forget has it pass nothing on of the connections that there are.
type Balancer interface {
	Address() string
	Forget()
}

// ConnectionsEnd tests that a connection that says nothing more holds no message for longer than the timeout, and that the next one gets another
// connection. The function that destination returns sends one message.
func ConnectionsEnd(t *testing.T, balance func(t *testing.T, receiver string) Balancer, destination func(t *testing.T, url string, trust *tls.Config) (send func(id string) error)) {
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
		balancer := balance(t, s.Listener.Addr().String())
		trust := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
		trust.RootCAs.AddCert(s.Certificate())
		send := destination(t, "https://"+balancer.Address(), trust)
		if err := send("a"); err != nil {
			t.Fatal(err)
		}
		balancer.Forget()
		if err := send("b"); err == nil {
			t.Error("a message was delivered over a connection that passes nothing")
		}
		if err := send("c"); err != nil {
			t.Errorf("the next message: %v", err)
		}
	})
}
