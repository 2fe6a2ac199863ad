package testenv

import (
	"testing"

	"github.com/outriderhq/outrider/internal/testenv/provision"
	"github.com/outriderhq/outrider/internal/testenv/server"
)

// EnvRabbitMQ is the URL (amqp://user:password@host:port/) of a RabbitMQ server whose user may create exchanges and queues.
const EnvRabbitMQ = "OUTRIDER_TEST_AMQP_URL"

// RabbitMQ returns the URL of the shared server. Queues live on after the test: it makes its own, with names that no other test uses.
func RabbitMQ(tb testing.TB) (url string) {
	tb.Helper()
	return shared(tb, EnvRabbitMQ, "RabbitMQ")
}

// RabbitServer is a RabbitMQ server of one test. A method that fails marks the test as failed, and may be called from any goroutine
// until the test ends.
type RabbitServer struct {
	tb     testing.TB
	server *server.RabbitMQ
}

// StartRabbitMQ starts a private RabbitMQ server with further lines of rabbitmq.conf. It is killed and deleted when the test ends. It takes
// about five seconds.
func StartRabbitMQ(tb testing.TB, settings ...string) *RabbitServer {
	tb.Helper()
	return startRabbitMQ(tb, server.RabbitOptions{Settings: settings})
}

// StartSecureRabbitMQ is [StartRabbitMQ] for a server that has a port with TLS more. Its certificate is for 127.0.0.1 and
// localhost, and it trusts the authority's certificates of clients.
func StartSecureRabbitMQ(tb testing.TB, a *Authority, settings ...string) *RabbitServer {
	tb.Helper()
	c := a.Issue("127.0.0.1", "localhost")
	return startRabbitMQ(tb, server.RabbitOptions{CertFile: c.CertFile, KeyFile: c.KeyFile, CAFile: a.File, Settings: settings})
}

func startRabbitMQ(tb testing.TB, opts server.RabbitOptions) *RabbitServer {
	tb.Helper()
	skipShort(tb)
	sbin, err := provision.Host{}.RabbitMQ(tb.Context())
	if err != nil {
		missing(tb, "%v", err)
	}
	opts.Scripts = sbin
	s, err := server.StartRabbitMQ(tb.Context(), opts)
	if err != nil {
		tb.Fatalf("testenv: %v", err)
	}
	r := &RabbitServer{tb: tb, server: s}
	tb.Cleanup(func() { r.check("close", s.Close()) })
	return r
}

// URL returns the server's address with its user. It stays the same over restarts.
func (r *RabbitServer) URL() string { return r.server.URL() }

// SecureURL returns the address with TLS, of a server of [StartSecureRabbitMQ].
func (r *RabbitServer) SecureURL() string { return r.server.SecureURL() }

// Kill kills the server with SIGKILL, and returns when it is gone.
func (r *RabbitServer) Kill() {
	r.tb.Helper()
	r.check("kill", r.server.Kill())
}

// Start starts the killed server again on the same port and data, and returns when it answers.
func (r *RabbitServer) Start() {
	r.tb.Helper()
	r.check("start", r.server.Start(r.tb.Context()))
}

// AwaitSaved waits until a kill of the server leaves a quorum queue as it is: it writes the names of new ones to disk after half a second, and forgets
// the content of those that it has not written.
func (r *RabbitServer) AwaitSaved(queue string) {
	r.tb.Helper()
	r.check("await queue "+queue+" of", r.server.AwaitSaved(r.tb.Context(), queue))
}

// Control runs rabbitmqctl.
func (r *RabbitServer) Control(args ...string) {
	r.tb.Helper()
	r.check("control", r.server.Control(r.tb.Context(), args...))
}

// check fails the test without ending it, which other goroutines must not do.
func (r *RabbitServer) check(what string, err error) {
	r.tb.Helper()
	if err != nil {
		r.tb.Errorf("testenv: %s the private RabbitMQ: %v", what, err)
	}
}
