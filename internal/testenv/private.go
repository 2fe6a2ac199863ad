package testenv

import (
	"context"
	"net"
	"testing"

	"github.com/outriderhq/outrider/internal/testenv/provision"
	"github.com/outriderhq/outrider/internal/testenv/server"
)

// PostgresServer is a PostgreSQL server of one test. A method that fails marks
// the test as failed, and may be called from any goroutine until the test ends.
type PostgresServer struct {
	tb     testing.TB
	server *server.Postgres
}

// StartPostgres starts a private PostgreSQL server, which is stopped and
// deleted when the test ends. It takes a second or two.
func StartPostgres(tb testing.TB) *PostgresServer {
	tb.Helper()
	skipShort(tb)
	bin, err := provision.Host{}.Postgres(tb.Context())
	if err != nil {
		missing(tb, "%v", err)
	}
	s, err := server.StartPostgres(tb.Context(), server.PostgresOptions{Bin: bin, Durable: true})
	if err != nil {
		tb.Fatalf("testenv: %v", err)
	}
	p := &PostgresServer{tb: tb, server: s}
	tb.Cleanup(func() { p.check("close", s.Close()) })
	return p
}

// URL returns the address of the server's database "postgres". It stays the
// same over restarts.
func (p *PostgresServer) URL() string { return p.server.URL() }

// Stop stops the server in the mode "fast" (a clean shutdown) or "immediate"
// (the next start recovers), and returns when it is gone.
func (p *PostgresServer) Stop(mode server.StopMode) {
	p.tb.Helper()
	p.check("stop", p.server.Stop(mode))
}

// Kill kills the server's main process with SIGKILL, and returns when its
// other processes have noticed and are gone.
func (p *PostgresServer) Kill() {
	p.tb.Helper()
	p.check("kill", p.server.Kill())
}

// Start starts the stopped or killed server again on the same port and data,
// and returns when it answers.
func (p *PostgresServer) Start() {
	p.tb.Helper()
	p.check("start", p.server.Start(p.tb.Context()))
}

// check fails the test without ending it, which other goroutines must not do.
func (p *PostgresServer) check(what string, err error) {
	p.tb.Helper()
	if err != nil {
		p.tb.Errorf("testenv: %s the private PostgreSQL: %v", what, err)
	}
}

// KafkaServer is a Kafka broker of one test. A method that fails marks the test
// as failed, and may be called from any goroutine until the test ends.
type KafkaServer struct {
	tb     testing.TB
	server *server.Kafka
}

// StartKafka starts a private Kafka broker, which is killed and deleted when
// the test ends. It takes about five seconds.
func StartKafka(tb testing.TB) *KafkaServer {
	tb.Helper()
	return StartKafkaBehind(tb, "")
}

// StartKafkaBehind is [StartKafka] for a broker that tells clients to connect to
// a proxy (host:port) in front of it. Those that are to pass it by use Dial.
func StartKafkaBehind(tb testing.TB, proxy string) *KafkaServer {
	tb.Helper()
	skipShort(tb)
	found, err := provision.Host{}.Kafka(tb.Context())
	if err != nil {
		missing(tb, "%v", err)
	}
	s, err := server.StartKafka(tb.Context(), server.KafkaOptions{
		Java: found.Java, Jars: found.Jars, QuickRestart: true, Advertise: proxy,
	})
	if err != nil {
		tb.Fatalf("testenv: %v", err)
	}
	k := &KafkaServer{tb: tb, server: s}
	tb.Cleanup(func() { k.check("close", s.Close()) })
	return k
}

// Brokers returns the broker's address. It stays the same over restarts.
func (k *KafkaServer) Brokers() []string { return k.server.Brokers() }

// Dial connects to the broker itself, whatever address it advertises; it is a
// dialer for franz-go.
func (k *KafkaServer) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return k.server.Dial(ctx, network, address)
}

// Kill kills the broker with SIGKILL and returns when it is gone.
func (k *KafkaServer) Kill() {
	k.tb.Helper()
	k.check("kill", k.server.Kill())
}

// Start starts the killed broker again on the same port and data, and returns
// when it leads all its partitions, which takes about five seconds.
func (k *KafkaServer) Start() {
	k.tb.Helper()
	k.check("start", k.server.Start(k.tb.Context()))
}

// check fails the test without ending it, which other goroutines must not do.
func (k *KafkaServer) check(what string, err error) {
	k.tb.Helper()
	if err != nil {
		k.tb.Errorf("testenv: %s the private Kafka broker: %v", what, err)
	}
}
