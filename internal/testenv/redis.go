package testenv

import (
	"testing"

	"github.com/outriderhq/outrider/internal/testenv/provision"
	"github.com/outriderhq/outrider/internal/testenv/server"
)

// EnvRedis is the address (host:port) of a Redis server that needs no password.
const EnvRedis = "OUTRIDER_TEST_REDIS_ADDRESS"

// Redis returns the address of the shared server. The test takes keys that no other test uses.
func Redis(tb testing.TB) string {
	tb.Helper()
	return shared(tb, EnvRedis, "Redis")
}

// RedisServer is a Redis server of one test. A method that fails marks the test as failed, and may be called from any goroutine until the
// test ends.
type RedisServer struct {
	tb     testing.TB
	server *server.Redis
}

// StartRedis starts a private Redis server with further settings ("maxmemory 10mb"), whose writes reach the disk before they are answered. It is
// killed and deleted when the test ends.
func StartRedis(tb testing.TB, settings ...string) *RedisServer {
	tb.Helper()
	return startRedis(tb, server.RedisOptions{Settings: settings})
}

// StartSecureRedis is [StartRedis] for a server that takes connections with TLS only; its certificate is for 127.0.0.1 and localhost.
func StartSecureRedis(tb testing.TB, a *Authority, settings ...string) *RedisServer {
	tb.Helper()
	c := a.Issue("127.0.0.1", "localhost")
	return startRedis(tb, server.RedisOptions{CertFile: c.CertFile, KeyFile: c.KeyFile, CAFile: a.File, Settings: settings})
}

// StartRedisNode is [StartRedis] for a node of a cluster that has no slots yet.
func StartRedisNode(tb testing.TB) *RedisServer {
	tb.Helper()
	return startRedis(tb, server.RedisOptions{Cluster: true})
}

// StartRedisSentinel starts a sentinel that watches a master under the name "main", and replaces it a second after it is gone.
func StartRedisSentinel(tb testing.TB, master *RedisServer) *RedisServer {
	tb.Helper()
	return startRedis(tb, server.RedisOptions{Sentinel: master.Address()})
}

func startRedis(tb testing.TB, opts server.RedisOptions) *RedisServer {
	tb.Helper()
	skipShort(tb)
	program, err := provision.Host{}.Redis(tb.Context())
	if err != nil {
		missing(tb, "%v", err)
	}
	opts.Program = program
	s, err := server.StartRedis(tb.Context(), opts)
	if err != nil {
		tb.Fatalf("testenv: %v", err)
	}
	r := &RedisServer{tb: tb, server: s}
	tb.Cleanup(func() { r.check("close", s.Close()) })
	return r
}

// Address returns the server's host:port. It stays the same over restarts.
func (r *RedisServer) Address() string { return r.server.Address() }

// ClusterBus returns the host:port on which other nodes of a cluster reach this one.
func (r *RedisServer) ClusterBus() string { return r.server.ClusterBus() }

// Kill kills the server with SIGKILL, and returns when it is gone.
func (r *RedisServer) Kill() {
	r.tb.Helper()
	r.check("kill", r.server.Kill())
}

// Start starts the killed server again on the same port and data, and returns when it answers.
func (r *RedisServer) Start() {
	r.tb.Helper()
	r.check("start", r.server.Start(r.tb.Context()))
}

// Freeze stops the server's process: connections stay, and nothing is answered until Thaw.
func (r *RedisServer) Freeze() {
	r.tb.Helper()
	r.check("freeze", r.server.Freeze())
}

// Thaw lets a frozen server go on.
func (r *RedisServer) Thaw() {
	r.tb.Helper()
	r.check("thaw", r.server.Thaw())
}

// check fails the test without ending it, which other goroutines must not do.
func (r *RedisServer) check(what string, err error) {
	r.tb.Helper()
	if err != nil {
		r.tb.Errorf("testenv: %s the private Redis: %v", what, err)
	}
}
