package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"
)

// PostgresOptions says how a PostgreSQL server is started.
type PostgresOptions struct {
	// Bin is the folder that holds initdb and postgres. Required.
	Bin string

	// Durable leaves fsync on, as tests that kill the server want it. Without,
	// the server is faster and may lose everything when the machine crashes,
	// which for a server that is thrown away after the run means nothing.
	Durable bool

	// Logical has the log hold what logical decoding needs, as readers of the log
	// (Debezium) want it. It makes the log of updates and deletes a little larger.
	Logical bool

	// Folder is where the server's own folder is made. Default: where temporary
	// files are.
	Folder string

	// Keep lets the server outlive the process that started it.
	Keep bool

	// CertFile and KeyFile are the server's certificate and private key, PEM, and
	// CAFile the authority of clients' certificates. They turn TLS on.
	CertFile, KeyFile, CAFile string

	// Template is the folder of another server's new cluster ([Postgres.Template]). A copy takes a twentieth of the processor time
	// that initdb takes. Default: the cluster is made by initdb.
	Template string

	// KeepTemplate has the server keep a copy of its new cluster for others.
	KeepTemplate bool

	// HBA are lines of pg_hba.conf, which says how clients log in. They come
	// after the one that lets the superuser in. Default: everybody is let in.
	HBA []string

	// Settings are further lines of postgresql.conf, for example "shared_buffers = '1GB'".
	Settings []string
}

// StopMode is the mode in which a PostgreSQL server stops.
type StopMode string

// The modes of stopping, named as pg_ctl names them.
const (
	Fast      StopMode = "fast"      // sessions are ended, then a clean shutdown
	Immediate StopMode = "immediate" // no clean shutdown: the next start recovers from the log
)

// signals are PostgreSQL's signals for the modes.
var signals = map[StopMode]syscall.Signal{Fast: syscall.SIGINT, Immediate: syscall.SIGQUIT}

// Postgres is a PostgreSQL server on a loopback port. Its superuser is
// "postgres" and needs no password. Methods may be called concurrently.
type Postgres struct {
	*host
	opts       PostgresOptions
	port       int
	credential *syscall.Credential // nil: our own user
}

// StartPostgres makes a new cluster and starts it. The caller must Close it,
// unless Keep is set. The error of a failed start holds the server's log.
func StartPostgres(ctx context.Context, opts PostgresOptions) (*Postgres, error) {
	credential, err := serverUser()
	if err != nil {
		return nil, err
	}
	ports, err := FreePorts(ctx, 1)
	if err != nil {
		return nil, err
	}
	h, err := newHost("PostgreSQL", opts.Folder, "outrider-postgres-")
	if err != nil {
		return nil, err
	}
	s := &Postgres{host: h, opts: opts, port: ports[0], credential: credential}
	if err := s.initialise(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if err := s.Start(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// URL returns the address of the database "postgres", which stays the same
// over restarts.
func (s *Postgres) URL() string {
	return "postgres://postgres@" + address(s.port) + "/postgres?sslmode=disable"
}

// Start starts the stopped server on its port and data, and returns when it
// answers queries.
func (s *Postgres) Start(ctx context.Context) error {
	// The port is an argument: a standby has the configuration of its primary.
	c := s.command("postgres", "-D", s.data(), "-p", strconv.Itoa(s.port))
	if !s.opts.Keep {
		c.orphanSignal = syscall.SIGQUIT // also removes its shared memory
	}
	return s.start(ctx, c, syscall.SIGQUIT, s.answers(s.ask))
}

// Stop stops the server and returns when all its processes have ended.
func (s *Postgres) Stop(mode StopMode) error {
	sig, ok := signals[mode]
	if !ok {
		return fmt.Errorf("stop PostgreSQL: mode %q is neither %q nor %q", mode, Fast, Immediate)
	}
	return s.stop(sig)
}

// Close stops the server if it runs and deletes its data.
func (s *Postgres) Close() error { return s.close(syscall.SIGQUIT) }

// ask succeeds when the server answers a query.
func (s *Postgres) ask(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, s.URL())
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	return conn.Ping(ctx)
}

func (s *Postgres) data() string    { return filepath.Join(s.dir, "data") }
func (s *Postgres) logFile() string { return filepath.Join(s.dir, "log") }

// command describes a run of one of PostgreSQL's programs. The environment is
// made from scratch: PGDATA, PGPORT and the like of the caller are not for us.
func (s *Postgres) command(program string, args ...string) command {
	return command{
		path:       filepath.Join(s.opts.Bin, program),
		args:       args,
		dir:        s.dir,
		env:        []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "PGTZ=UTC"},
		log:        s.logFile(),
		credential: s.credential,
	}
}

// initialise makes the cluster in the server's folder.
func (s *Postgres) initialise(ctx context.Context) error {
	if c := s.credential; c != nil {
		if err := os.Chown(s.dir, int(c.Uid), int(c.Gid)); err != nil {
			return fmt.Errorf("give the server's folder to its user: %w", err)
		}
	}
	if err := s.makeCluster(ctx); err != nil {
		return err
	}
	conf, err := os.OpenFile(filepath.Join(s.data(), "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("configure PostgreSQL: %w", err)
	}
	_, err = conf.WriteString(s.config())
	return errors.Join(err, conf.Close(), s.secure())
}

// secure puts certificates where only the server's user can read them, as
// PostgreSQL demands, and writes pg_hba.conf.
func (s *Postgres) secure() error {
	files := map[string]string{"server.crt": s.opts.CertFile, "server.key": s.opts.KeyFile, "root.crt": s.opts.CAFile}
	for name, from := range files {
		if from == "" {
			continue
		}
		data, err := os.ReadFile(from)
		if err != nil {
			return fmt.Errorf("configure PostgreSQL's TLS: %w", err)
		}
		if err := s.write(name, data); err != nil {
			return fmt.Errorf("configure PostgreSQL's TLS: %w", err)
		}
	}
	if len(s.opts.HBA) == 0 {
		return nil
	}
	lines := append([]string{"host all postgres " + loopback + "/32 trust"}, s.opts.HBA...)
	return s.write("pg_hba.conf", []byte(strings.Join(lines, "\n")+"\n"))
}

// write writes a file of the cluster for its user alone.
func (s *Postgres) write(name string, data []byte) error {
	path := filepath.Join(s.data(), name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return err
	}
	if c := s.credential; c != nil {
		return os.Chown(path, int(c.Uid), int(c.Gid))
	}
	return nil
}

// config returns the settings that differ from PostgreSQL's defaults.
func (s *Postgres) config() string {
	text := `
listen_addresses = '` + loopback + `'
unix_socket_directories = ''
port = ` + strconv.Itoa(s.port) + `
max_connections = 300
timezone = 'UTC'
log_timezone = 'UTC'
`
	if hasStatStatements(s.opts.Bin) {
		text += "shared_preload_libraries = 'pg_stat_statements'\n"
	}
	if s.opts.CertFile != "" {
		text += "ssl = on\nssl_ca_file = 'root.crt'\n"
	}
	if s.opts.Logical {
		text += "wal_level = logical\n"
	}
	if s.opts.Folder != "" {
		// The log is in memory there, and autovacuum starts a process for each of many short-lived databases.
		// Files in memory need few shared buffers, and with few of them a connection costs less.
		text += "max_wal_size = '256MB'\nautovacuum_naptime = '5min'\nshared_buffers = '32MB'\n"
	}
	if !s.opts.Durable {
		// A shared server holds nothing that anybody wants after the run, and no
		// test kills it; without these two a run spends its time in fsync.
		text += "fsync = off\nfull_page_writes = off\n"
	}
	return text + strings.Join(s.opts.Settings, "\n") + "\n"
}

// hasStatStatements reports whether the extension that counts statements is
// installed. The folder of its library depends on the package of the server.
func hasStatStatements(bin string) bool {
	for _, folder := range []string{"lib", "lib/postgresql", "lib/pgsql", "lib64/pgsql"} {
		found, err := filepath.Glob(filepath.Join(bin, "..", folder, "pg_stat_statements.*"))
		if err == nil && len(found) > 0 {
			return true
		}
	}
	return false
}
