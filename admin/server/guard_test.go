package server

import (
	"bufio"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outriderhq/outrider/adapters"
)

func settings(tokens ...string) Config {
	return Config{
		Listen: "127.0.0.1:0", Tokens: tokens, Hosts: []string{"Outrider.internal"}, Logger: slog.New(slog.DiscardHandler),
		Stats: func() []adapters.RouteStats { return nil }, Ready: func() string { return "" },
	}
}

func start(t *testing.T, cfg Config, lim limits, h http.Handler) *Server {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", cfg.Listen)
	if err != nil {
		t.Fatal(err)
	}
	s := serve(cfg, l, lim, h)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// ask sends a request on a connection of its own and returns status and headers.
func ask(t *testing.T, s *Server, method, path string, header map[string]string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+s.Addr()+path, strings.NewReader(""))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range header {
		if name == "Host" {
			req.Host = value
		} else {
			req.Header.Set(name, value)
		}
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	return resp
}

// An address that other machines can reach is refused without a token, before
// anything is answered.
func TestG12_AnAddressForOthersNeedsAToken(t *testing.T) {
	t.Parallel()
	cfg := settings()
	for _, listen := range []string{"0.0.0.0:0", ":0", "[::]:0"} {
		cfg.Listen = listen
		if s, err := Listen(cfg); err == nil || !strings.Contains(err.Error(), "tokens_file") {
			t.Errorf("%s: %v", listen, err)
			if s != nil {
				_ = s.Close()
			}
		}
	}
	cfg.Listen = "127.0.0.1:0"
	s, err := Listen(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if got := ask(t, s, http.MethodGet, "/routes", nil).StatusCode; got != http.StatusOK {
		t.Errorf("on loopback without a token: %d", got)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// Every path passes the guard, also one that no handler is registered for.
func TestG12_EveryPathIsGuarded(t *testing.T) {
	t.Parallel()
	cfg := settings("hunter2", "second")
	s := start(t, cfg, defaultLimits, routes(cfg))
	right := map[string]string{"Authorization": "Bearer second"}
	with := func(name, value string) map[string]string {
		return map[string]string{"Authorization": "Bearer hunter2", name: value}
	}
	for i, test := range []struct {
		method, path string
		header       map[string]string
		want         int
	}{
		{"GET", "/livez", nil, 200}, {"GET", "/readyz", nil, 200},
		{"GET", "/metrics", nil, 401}, {"GET", "/routes", nil, 401}, {"GET", "/later", nil, 401}, {"POST", "/later", nil, 401},
		{"GET", "/livez/x", nil, 401}, {"GET", "//livez", nil, 401},
		{"GET", "/metrics", map[string]string{"Authorization": "Bearer hunter"}, 401},
		{"GET", "/metrics", map[string]string{"Authorization": "Bearer "}, 401},
		{"GET", "/metrics", map[string]string{"Authorization": "hunter2"}, 401},
		{"GET", "/metrics", right, 200}, {"GET", "/routes", right, 200}, {"GET", "/later", right, 404},
		{"GET", "/routes", with("Host", "evil.example"), 421}, {"GET", "/livez", map[string]string{"Host": "evil.example:8080"}, 421},
		{"GET", "/routes", with("Host", "localhost.evil.example"), 421}, {"GET", "/routes", with("Host", "127.0.0.1.evil.example"), 421},
		{"GET", "/routes", with("Host", "localhost:1234"), 200}, {"GET", "/routes", with("Host", "LOCALHOST."), 200},
		{"GET", "/routes", with("Host", "10.1.2.3:80"), 200}, {"GET", "/routes", with("Host", "[::1]:80"), 200},
		{"GET", "/routes", with("Host", "outrider.INTERNAL"), 200},
		{"POST", "/later", with("Origin", "https://evil.example"), 403}, {"POST", "/later", with("Sec-Fetch-Site", "cross-site"), 403},
		{"POST", "/later", with("Sec-Fetch-Site", "same-origin"), 404},
	} {
		resp := ask(t, s, test.method, test.path, test.header)
		if resp.StatusCode != test.want {
			t.Errorf("%d: %s %s with %v: %d, want %d", i, test.method, test.path, test.header, resp.StatusCode, test.want)
		}
		if resp.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%d: headers %v", i, resp.Header)
		}
	}
}

// A client that sends or reads slowly, or says nothing, is cut off: each kind
// ends though the test waits for it alone.
func TestSlowClientsAreCutOff(t *testing.T) {
	t.Parallel()
	lim := defaultLimits
	lim.header, lim.read, lim.idle = 50*time.Millisecond, 100*time.Millisecond, 50*time.Millisecond
	cfg := settings()
	for name, sent := range map[string]string{
		"nothing":    "",
		"a header":   "GET /livez HTTP/1.1\r\nHost: localhost\r\n",
		"a body":     "GET /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nx",
		"idle after": "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n",
	} {
		s := start(t, cfg, lim, routes(cfg))
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, sent); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, conn); err != nil && !strings.Contains(err.Error(), "reset") { // returns when the server closes it
			t.Errorf("%s: %v", name, err)
		}
		_ = conn.Close()
	}
}

// pipes is a listener in memory.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { close(p.closed); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

// Connections beyond the bound wait until others have ended.
func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lim := defaultLimits
		lim.connections = 3
		release, inside := make(chan struct{}), atomic.Int64{}
		p := &pipes{make(chan net.Conn), make(chan struct{})}
		s := serve(settings(), p, lim, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			inside.Add(1)
			<-release
		}))
		var answered atomic.Int64
		for range 8 {
			go func() {
				client, server := net.Pipe()
				p.conns <- server
				if _, err := io.WriteString(client, "GET /x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"); err != nil {
					t.Error(err)
				}
				if answer, err := io.ReadAll(client); err == nil && strings.HasPrefix(string(answer), "HTTP/1.1 200 ") {
					answered.Add(1)
				}
			}()
		}
		synctest.Wait() // everything that can happen has happened
		if n := inside.Load(); n != 3 {
			t.Errorf("%d requests at once, want 3", n)
		}
		close(release)
		synctest.Wait()
		if n := answered.Load(); n != 8 {
			t.Errorf("%d of 8 requests were answered", n)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Bodies and headers have bounds.
func TestRequestsAreBounded(t *testing.T) {
	t.Parallel()
	lim := defaultLimits
	lim.bodyBytes = 1000
	s := start(t, settings(), lim, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			text(w, http.StatusRequestEntityTooLarge, err.Error())
		}
	}))
	for name, request := range map[string]string{
		"413": "POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1001\r\n\r\n" + strings.Repeat("x", 1001),
		"431": "GET /x HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", lim.headerBytes+16<<10) + "\r\n\r\n",
	} {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, request); err != nil {
			t.Log(err) // refused before all was sent
		}
		line, err := bufio.NewReader(conn).ReadString('\n')
		if !strings.Contains(line, " "+name+" ") {
			t.Errorf("%q, %v, want %s", line, err, name)
		}
		_ = conn.Close()
	}
}

// The address of probes answers them to everybody, and has nothing else to show.
func TestG12_ProbesOfTheirOwn(t *testing.T) {
	t.Parallel()
	cfg := settings("hunter2")
	reason := ""
	cfg.Listen, cfg.Probes, cfg.Ready = "off", "0.0.0.0:0", func() string { return reason }
	cfg.Pages = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a page was asked for") })
	s, err := ListenProbes(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if again, err := ListenProbes(Config{Probes: s.Addr()}); err == nil || !strings.Contains(err.Error(), "admin: {probes: ...}") {
		t.Errorf("an address that is taken: %v, %v", again, err)
	}
	right := map[string]string{"Authorization": "Bearer hunter2", "Accept": "text/html"}
	for _, test := range []struct {
		method, path string
		header       map[string]string
		want         int
	}{
		{"GET", "/livez", nil, 200}, {"HEAD", "/livez", nil, 200}, {"GET", "/readyz", nil, 200}, {"GET", "/readyz", right, 200},
		{"GET", "/metrics", right, 404}, {"GET", "/routes", right, 404}, {"GET", "/", right, 404}, {"GET", "/login", right, 404},
		{"GET", "/api/v1/routes", right, 404}, {"POST", "/livez", right, 405}, {"GET", "/livez/x", nil, 404},
		{"GET", "/readyz", map[string]string{"Host": "evil.example"}, 421}, {"GET", "/readyz", map[string]string{"Host": "outrider.internal:81"}, 200},
	} {
		if got := ask(t, s, test.method, test.path, test.header); got.StatusCode != test.want || got.Header.Get("Set-Cookie") != "" {
			t.Errorf("%s %s %v: %d, want %d", test.method, test.path, test.header, got.StatusCode, test.want)
		}
	}
	reason = "draining"
	if got := ask(t, s, http.MethodGet, "/readyz", nil).StatusCode; got != http.StatusServiceUnavailable {
		t.Errorf("draining: %d", got)
	}
}
