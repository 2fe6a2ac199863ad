package admin

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/outriderhq/outrider/outbox"
)

// Config says where the server listens and what it tells.
type Config struct {
	Listen string   // host:port; port 0 takes a free one
	Tokens []string // bearer tokens for everything but health; empty: open

	Stats  func() []outbox.RouteStats
	Ready  func() string // why the relay is not ready; empty when it is
	Logger *slog.Logger

	Metrics prometheus.Collector // shown beside the server's own; optional
}

// Server is a listening admin server.
type Server struct {
	http     *http.Server
	listener net.Listener
	done     chan error
}

// Listen starts the server. The error names the address.
func Listen(cfg Config) (*Server, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("admin address %s: %w: choose another with admin: {listen: ...}, or `listen: off`", cfg.Listen, err)
	}
	if len(cfg.Tokens) == 0 && !loopback(l.Addr()) {
		cfg.Logger.Warn("the admin address can be reached from other machines and has no token: set admin: {tokens_file: ...}",
			"address", l.Addr().String())
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(newCollector(cfg.Stats), collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if cfg.Metrics != nil {
		registry.MustRegister(cfg.Metrics)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { text(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if reason := cfg.Ready(); reason != "" {
			text(w, http.StatusServiceUnavailable, reason)
			return
		}
		text(w, http.StatusOK, "ok")
	})
	mux.Handle("GET /routes", authorised(cfg.Tokens, serveRoutes(cfg.Stats)))
	mux.Handle("GET /metrics", authorised(cfg.Tokens, promhttp.HandlerFor(registry, promhttp.HandlerOpts{})))
	s := &Server{listener: l, done: make(chan error, 1), http: &http.Server{
		Handler: mux, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute,
		ErrorLog: slog.NewLogLogger(cfg.Logger.Handler(), slog.LevelDebug),
	}}
	go func() { s.done <- s.http.Serve(l) }()
	return s, nil
}

// Addr is where the server listens.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Close ends the server; requests under way get a second.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.http.Close()
	}
	if served := <-s.done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

func text(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = fmt.Fprintln(w, body) // the client may have gone
}

// authorised asks for one of the tokens, if there are any.
func authorised(tokens []string, h http.Handler) http.Handler {
	if len(tokens) == 0 {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		for _, t := range tokens {
			if ok && subtle.ConstantTimeCompare([]byte(given), []byte(t)) == 1 {
				h.ServeHTTP(w, r)
				return
			}
		}
		w.Header().Set("WWW-Authenticate", "Bearer")
		text(w, http.StatusUnauthorized, "a bearer token of admin.tokens_file is needed")
	})
}

func loopback(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}
