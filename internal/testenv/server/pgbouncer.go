package server

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"
)

// PgBouncerOptions says how a PgBouncer is started.
type PgBouncerOptions struct {
	// Program is the pooler's. Required.
	Program string

	// Server is the URL of a database on the server behind it, whose user needs no password. Required.
	Server string

	// Mode is how long a client keeps a session of the server: "session", "transaction" or "statement". Required.
	Mode string

	// Settings are further lines of its section [pgbouncer], for example "server_lifetime = 1".
	Settings []string
}

// PgBouncer is a PgBouncer on a loopback port, in front of one PostgreSQL server. Methods may be called concurrently.
type PgBouncer struct {
	*host
	opts       PgBouncerOptions
	url        url.URL
	credential *syscall.Credential // nil: our own user
}

// StartPgBouncer starts a pooler. The caller must Close it. The error of a failed start holds its log.
func StartPgBouncer(ctx context.Context, opts PgBouncerOptions) (*PgBouncer, error) {
	behind, err := url.Parse(opts.Server)
	if err != nil {
		return nil, fmt.Errorf("the server behind PgBouncer: %w", err)
	}
	credential, err := serverUser() // like PostgreSQL it refuses to be root's
	if err != nil {
		return nil, err
	}
	ports, err := FreePorts(ctx, 1)
	if err != nil {
		return nil, err
	}
	h, err := newHost("PgBouncer", "", "outrider-pgbouncer-")
	if err != nil {
		return nil, err
	}
	b := &PgBouncer{host: h, opts: opts, url: *behind, credential: credential}
	b.url.Host = address(ports[0])
	if err := b.configure(behind, ports[0]); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	if err := b.Start(ctx); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// URL returns the URL of the server's database through the pooler. It stays the same over restarts.
func (b *PgBouncer) URL() string { return b.url.String() }

// Start starts the stopped pooler, and returns when it answers. The server behind it must answer, too.
func (b *PgBouncer) Start(ctx context.Context) error {
	c := command{path: b.opts.Program, args: []string{b.file("ini")}, dir: b.dir, env: []string{"LC_ALL=C"}, log: b.file("log"), credential: b.credential,
		orphanSignal: syscall.SIGKILL}
	return b.start(ctx, c, syscall.SIGKILL, b.answers(b.ask))
}

// Close kills the pooler.
func (b *PgBouncer) Close() error { return b.close(syscall.SIGKILL) }

func (b *PgBouncer) file(name string) string { return filepath.Join(b.dir, name) }

// configure writes the pooler's files. All databases of the server are reached through it, by its user.
func (b *PgBouncer) configure(behind *url.URL, port int) error {
	lines := []string{
		"[databases]", fmt.Sprintf("* = host=%s port=%s", behind.Hostname(), behind.Port()),
		"[pgbouncer]", "listen_addr = " + loopback, "listen_port = " + strconv.Itoa(port), "unix_socket_dir =",
		"auth_type = trust", "auth_file = " + b.file("users"), "pool_mode = " + b.opts.Mode,
		"max_client_conn = 400", "default_pool_size = 50", "server_tls_sslmode = disable",
	}
	lines = append(lines, b.opts.Settings...)
	err := errors.Join(os.WriteFile(b.file("ini"), []byte(strings.Join(lines, "\n")+"\n"), 0o600),
		os.WriteFile(b.file("users"), []byte(strconv.Quote(behind.User.Username())+` ""`+"\n"), 0o600))
	if c := b.credential; c != nil {
		for _, name := range []string{"", "ini", "users"} {
			err = errors.Join(err, os.Chown(b.file(name), int(c.Uid), int(c.Gid)))
		}
	}
	return err
}

// ask succeeds when a statement is answered through the pooler.
func (b *PgBouncer) ask(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, b.URL())
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	return conn.Ping(ctx)
}
