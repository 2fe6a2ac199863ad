package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/console"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/admin/status"
)

// Config says where the server listens and what it serves.
type Config struct {
	Listen string   // host:port; port 0 takes a free one
	Probes string   // the same for [ListenProbes]
	Tokens []string // bearer tokens for everything but health, with [operate.RoleRead]

	// OperateTokens and AdminTokens are those with more rights. Without any token the
	// server is open, on loopback addresses only, to callers with the role Anonymous.
	OperateTokens, AdminTokens []string
	Anonymous                  operate.Role // at least [operate.RoleRead]

	Identity Identity // of a trusted proxy; counts as a token

	Hosts []string // names that requests may be addressed to, in addition to addresses, localhost and the host of Listen

	Stats  func() []adapters.RouteStats
	Ready  func() string // why the relay is not ready; empty when it is
	Logger *slog.Logger

	// Prove answers the challenge of a command that asks whether this relay has its state store; optional.
	Prove func(ctx context.Context, challenge string) string

	Metrics prometheus.Collector // shown in addition to the server's own; optional
	API     http.Handler         // answers below /api/v1/; optional
	Outbox  http.Handler         // answers below /api/outbox/; optional
	Pages   http.Handler         // answers what no other has; optional
}

// Server is a listening admin server.
type Server struct {
	http     *http.Server
	listener net.Listener
	done     chan error
}

// ErrNoToken is why [Listen] refuses an address that other machines can reach.
var ErrNoToken = errors.New("other machines can reach it, and no token is set: add admin: {tokens_file: ...}, or listen on 127.0.0.1")

// Listen starts the server. The error names the address. An address that is not a
// loopback one is refused without a token ([ErrNoToken]).
func Listen(cfg Config) (*Server, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("admin address %s: %w: choose another with admin: {listen: ...}, or `listen: off`", cfg.Listen, err)
	}
	if len(cfg.Tokens)+len(cfg.OperateTokens)+len(cfg.AdminTokens) == 0 && cfg.Identity.Header == "" && !loopback(l.Addr()) {
		return nil, errors.Join(fmt.Errorf("admin address %s: %w", cfg.Listen, ErrNoToken), l.Close())
	}
	return serve(cfg, l, defaultLimits, routes(cfg)), nil
}

// ListenProbes starts a server that answers the paths of orchestrators to everybody, at an address of its own, and nothing else.
func ListenProbes(cfg Config) (*Server, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", cfg.Probes)
	if err != nil {
		return nil, fmt.Errorf("address of probes %s: %w: choose another with admin: {probes: ...}", cfg.Probes, err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { text(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", readyz(cfg))
	cfg.Listen = cfg.Probes
	return serveGuarded(cfg, l, defaultLimits, withHeaders(addressed(cfg, mux))), nil
}

// Handler returns what the server serves, for a program that mounts it in a server of
// its own: requests are guarded likewise, except by the name that they are addressed
// to, and connections and times are that server's.
func Handler(cfg Config) http.Handler { return guardMounted(cfg, defaultLimits, routes(cfg)) }

// serve answers what comes in at the listener, by handlers behind [guard].
func serve(cfg Config, l net.Listener, lim limits, h http.Handler) *Server {
	return serveGuarded(cfg, l, lim, guard(cfg, lim, h))
}

func serveGuarded(cfg Config, l net.Listener, lim limits, h http.Handler) *Server {
	room := newPool(l, lim)
	s := &Server{listener: l, done: make(chan error, 1), http: &http.Server{
		Handler: room.serve(h),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connectionKey{}, c)
		},
		ReadHeaderTimeout: lim.header, ReadTimeout: lim.read, WriteTimeout: lim.write, IdleTimeout: lim.idle,
		MaxHeaderBytes: lim.headerBytes,
		ErrorLog:       slog.NewLogLogger(cfg.Logger.Handler(), slog.LevelDebug),
	}}
	go func() { s.done <- s.http.Serve(room) }()
	return s
}

// Registry has the metrics of /metrics.
func Registry(cfg Config) *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(console.NewCollector(cfg.Stats), collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if cfg.Metrics != nil {
		registry.MustRegister(cfg.Metrics)
	}
	return registry
}

// routes are the handlers by path.
func routes(cfg Config) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, r *http.Request) {
		if challenge := r.Header.Get(console.ChallengeHeader); challenge != "" && cfg.Prove != nil {
			w.Header().Set(console.ProofHeader, cfg.Prove(r.Context(), challenge))
		}
		text(w, http.StatusOK, "ok")
	})
	mux.HandleFunc("GET /readyz", readyz(cfg))
	if cfg.API != nil {
		mux.Handle(apiPath, cfg.API)
	}
	if cfg.Outbox != nil {
		mux.Handle(outboxPath, cfg.Outbox)
	}
	if cfg.Pages != nil {
		mux.Handle("/", cfg.Pages)
	}
	mux.Handle("GET /routes", serveRoutes(cfg.Stats))
	mux.Handle("GET /metrics", promhttp.HandlerFor(Registry(cfg), promhttp.HandlerOpts{}))
	return mux
}

func readyz(cfg Config) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if reason := cfg.Ready(); reason != "" {
			text(w, http.StatusServiceUnavailable, reason)
			return
		}
		text(w, http.StatusOK, "ok")
	}
}

// Addr is where the server listens.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Close ends the server; requests in flight get a second.
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
	_, _ = fmt.Fprintln(w, body) //nolint:gosec // plain text, which no browser sniffs; the client may have gone
}

// serveRoutes answers GET /routes.
func serveRoutes(stats func() []adapters.RouteStats) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"routes": status.RoutesOf(stats())}) // the client may have gone
	})
}
