package testenv

import (
	"context"
	"net"
	"os"
	"testing"

	"github.com/outriderhq/outrider/internal/testenv/provision"
	"github.com/outriderhq/outrider/internal/testenv/server"
)

// privateLeast is the free memory that the databases of one test's server need. Files there outlive the server's processes.
const privateLeast = 2 << 30

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
	return startPostgres(tb, server.PostgresOptions{})
}

// StartSecurePostgres is [StartPostgres] for a server with TLS: its certificate
// is for 127.0.0.1, localhost and db.example.com, it trusts the authority's
// certificates of clients, and lets clients in as the lines of pg_hba.conf say.
// The superuser needs neither.
func StartSecurePostgres(tb testing.TB, a *Authority, hba ...string) *PostgresServer {
	tb.Helper()
	c := a.Issue("127.0.0.1", "localhost", "db.example.com")
	return startPostgres(tb, server.PostgresOptions{CertFile: c.CertFile, KeyFile: c.KeyFile, CAFile: a.File, HBA: hba})
}

func startPostgres(tb testing.TB, opts server.PostgresOptions) *PostgresServer {
	tb.Helper()
	skipShort(tb)
	bin, err := provision.Host{}.Postgres(tb.Context())
	if err != nil {
		missing(tb, "%v", err)
	}
	opts.Bin, opts.Durable, opts.Folder = bin, true, server.MemoryFolder(privateLeast)
	opts.Template = os.Getenv(EnvPostgresTemplate)
	s, err := server.StartPostgres(tb.Context(), opts)
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

// MariaDBServer is a MariaDB server of one test. A method that fails marks the test as failed, and may be
// called from any goroutine until the test ends.
type MariaDBServer struct {
	tb     testing.TB
	server *server.MariaDB
}

// StartMariaDB starts a private MariaDB server with further settings ("sql_mode=ANSI_QUOTES"), which is killed and deleted when the
// test ends. It takes a second or two.
func StartMariaDB(tb testing.TB, settings ...string) *MariaDBServer {
	tb.Helper()
	return startMariaDB(tb, server.MariaDBOptions{Settings: settings})
}

// StartSecureMariaDB is [StartMariaDB] for a server with TLS: its certificate is for 127.0.0.1, localhost and
// db.example.com, and it trusts the authority's certificates of clients.
func StartSecureMariaDB(tb testing.TB, a *Authority) *MariaDBServer {
	tb.Helper()
	c := a.Issue("127.0.0.1", "localhost", "db.example.com")
	return startMariaDB(tb, server.MariaDBOptions{CertFile: c.CertFile, KeyFile: c.KeyFile, CAFile: a.File})
}

func startMariaDB(tb testing.TB, opts server.MariaDBOptions) *MariaDBServer {
	tb.Helper()
	skipShort(tb)
	found, err := provision.Host{}.MariaDB(tb.Context())
	if err != nil {
		missing(tb, "%v", err)
	}
	opts.Program, opts.Share, opts.Durable, opts.Folder = found.Program, found.Share, true, server.MemoryFolder(privateLeast)
	s, err := server.StartMariaDB(tb.Context(), opts)
	if err != nil {
		tb.Fatalf("testenv: %v", err)
	}
	m := &MariaDBServer{tb: tb, server: s}
	tb.Cleanup(func() { m.check("close", s.Close()) })
	return m
}

// URL returns the address of the server, as its user root, without a database. It stays the same over restarts.
func (m *MariaDBServer) URL() string { return m.server.URL() }

// Database makes a new empty database and returns its URL.
func (m *MariaDBServer) Database() string {
	m.tb.Helper()
	url, _, err := createSchema(m.tb.Context(), m.URL(), m.tb.Name())
	if err != nil {
		m.tb.Fatalf("testenv: %v", err)
	}
	return url
}

// Stop shuts the server down cleanly, and returns when it is gone.
func (m *MariaDBServer) Stop() {
	m.tb.Helper()
	m.check("stop", m.server.Stop())
}

// Kill kills the server with SIGKILL, and returns when it is gone.
func (m *MariaDBServer) Kill() {
	m.tb.Helper()
	m.check("kill", m.server.Kill())
}

// Start starts the stopped or killed server again on the same port and data,
// and returns when it answers.
func (m *MariaDBServer) Start() {
	m.tb.Helper()
	m.check("start", m.server.Start(m.tb.Context()))
}

// check fails the test without ending it, which other goroutines must not do.
func (m *MariaDBServer) check(what string, err error) {
	m.tb.Helper()
	if err != nil {
		m.tb.Errorf("testenv: %s the private MariaDB: %v", what, err)
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

// StartKafkaBehind is [StartKafka] for a broker that advertises the address of a proxy
// (host:port) in front of it. Clients that bypass the proxy use Dial.
func StartKafkaBehind(tb testing.TB, proxy string) *KafkaServer {
	tb.Helper()
	return startKafka(tb, server.KafkaOptions{Advertise: proxy})
}

// StartSecureKafka is [StartKafka] for a broker that has two listeners more, with
// a certificate for 127.0.0.1 and localhost: for clients that log in by SASL over
// TLS, and for those that show a certificate of the authority's. User and password are those of SASL, by every
// mechanism.
func StartSecureKafka(tb testing.TB, a *Authority, user, password string) *KafkaServer {
	tb.Helper()
	c := a.Issue("127.0.0.1", "localhost")
	return startKafka(tb, server.KafkaOptions{Security: &server.KafkaSecurity{
		CertFile: c.CertFile, KeyFile: c.KeyFile, CAFile: a.File, User: user, Password: password,
	}})
}

// StartKafkaCluster is [StartKafka] for a cluster of several brokers. It takes about 20 seconds.
func StartKafkaCluster(tb testing.TB, brokers int) []*KafkaServer {
	tb.Helper()
	return startKafkas(tb, server.KafkaOptions{}, brokers)
}

func startKafka(tb testing.TB, opts server.KafkaOptions) *KafkaServer {
	tb.Helper()
	return startKafkas(tb, opts, 1)[0]
}

func startKafkas(tb testing.TB, opts server.KafkaOptions, brokers int) []*KafkaServer {
	tb.Helper()
	skipShort(tb)
	found, err := provision.Host{}.Kafka(tb.Context())
	if err != nil {
		missing(tb, "%v", err)
	}
	opts.Java, opts.Jars, opts.Archive, opts.QuickRestart = found.Java, found.Jars, found.Archive, true
	started, err := server.StartKafkaCluster(tb.Context(), opts, brokers)
	if err != nil {
		tb.Fatalf("testenv: %v", err)
	}
	all := make([]*KafkaServer, brokers)
	for i, s := range started {
		all[i] = &KafkaServer{tb: tb, server: s}
		tb.Cleanup(func() { all[i].check("close", s.Close()) })
	}
	return all
}

// Brokers returns the broker's address. It stays the same over restarts.
func (k *KafkaServer) Brokers() []string { return k.server.Brokers() }

// LoginBrokers returns the address for SASL over TLS, of a broker of
// [StartSecureKafka].
func (k *KafkaServer) LoginBrokers() []string { return k.server.LoginBrokers() }

// CertificateBrokers returns the address for clients with a certificate, likewise.
func (k *KafkaServer) CertificateBrokers() []string { return k.server.CertificateBrokers() }

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
