package server

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/go-sql-driver/mysql"
)

// MariaDBOptions says how a MariaDB server is started.
type MariaDBOptions struct {
	// Program is mariadbd, and Share the folder of its messages and of the statements that
	// make its system tables. Required.
	Program, Share string

	// Durable has a COMMIT reach the disk, as tests that kill the server want it. Without,
	// the server is faster and may lose everything when the machine crashes.
	Durable bool

	// Folder is where the server's own folder is made. Default: where temporary
	// files are.
	Folder string

	// Keep lets the server outlive the process that started it.
	Keep bool

	// CertFile and KeyFile are the server's certificate and private key, PEM, and
	// CAFile the authority of clients' certificates. They turn TLS on.
	CertFile, KeyFile, CAFile string

	// Settings are further ones, for example "explicit_defaults_for_timestamp=OFF".
	Settings []string
}

// MariaDB is a MariaDB server on a loopback port. Its user "root" needs no password and may do
// everything. Methods may be called concurrently.
type MariaDB struct {
	*host
	opts       MariaDBOptions
	port       int
	credential *syscall.Credential // nil: our own user
}

// StartMariaDB makes new system tables and starts a server on them, in about a second. The caller must Close
// it, unless Keep is set. The error of a failed start holds the server's log.
func StartMariaDB(ctx context.Context, opts MariaDBOptions) (*MariaDB, error) {
	credential, err := serverUser()
	if err != nil {
		return nil, err
	}
	ports, err := FreePorts(ctx, 1)
	if err != nil {
		return nil, err
	}
	h, err := newHost("MariaDB", opts.Folder, "outrider-mariadb-")
	if err != nil {
		return nil, err
	}
	s := &MariaDB{host: h, opts: opts, port: ports[0], credential: credential}
	if err := s.initialise(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if err := s.Start(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// URL returns the address of the server, without a database, which stays the same over restarts.
func (s *MariaDB) URL() string { return "mysql://root@" + address(s.port) + "/" }

// Start starts the stopped server on its port and data, and returns when it
// answers queries.
func (s *MariaDB) Start(ctx context.Context) error {
	c := s.command(s.serving()...)
	if !s.opts.Keep {
		c.orphanSignal = syscall.SIGKILL
	}
	return s.start(ctx, c, syscall.SIGKILL, s.answers(s.ask))
}

// Stop shuts the server down cleanly and returns when it has ended.
func (s *MariaDB) Stop() error { return s.stop(syscall.SIGTERM) }

// Close kills the server if it runs and deletes its data.
func (s *MariaDB) Close() error { return s.close(syscall.SIGKILL) }

// ask succeeds when the server answers a query.
func (s *MariaDB) ask(ctx context.Context) (err error) {
	cfg := mysql.NewConfig()
	cfg.User, cfg.Net, cfg.Addr, cfg.Logger = "root", "tcp", address(s.port), &mysql.NopLogger{}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	defer func() { err = errors.Join(err, db.Close()) }()
	return db.PingContext(ctx)
}

func (s *MariaDB) file(name string) string { return filepath.Join(s.dir, name) }

// command describes a run of the server's program. Files of settings on this machine are not for us.
func (s *MariaDB) command(args ...string) command {
	args = append([]string{
		"--no-defaults", "--datadir=" + s.file("data"), "--lc-messages-dir=" + s.opts.Share,
		"--tmpdir=" + s.dir, // a server that starts removes temporary tables that it finds
		"--innodb-use-native-aio=0",
	}, args...)
	return command{
		path:       s.opts.Program,
		args:       args,
		dir:        s.dir,
		env:        []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC"},
		log:        s.file("log"),
		credential: s.credential,
	}
}

// systemTables are the files of statements that make what a server needs to start. Their names begin with mysql, and from 11.0 on
// with mariadb.
var systemTables = []string{"_system_tables.sql", "_performance_tables.sql", "_system_tables_data.sql"}

// initialise makes the system tables in the server's folder.
func (s *MariaDB) initialise(ctx context.Context) error {
	if err := errors.Join(os.Mkdir(s.file("data"), 0o700), s.write("init.sql", []byte(rootUser)), s.own("."), s.own("data")); err != nil {
		return fmt.Errorf("make the folder of MariaDB: %w", err)
	}
	statements := bytes.NewBufferString("CREATE DATABASE mysql;\nUSE mysql;\nSET @auth_root_socket = NULL;\n")
	for _, name := range systemTables {
		text, err := os.ReadFile(filepath.Join(s.opts.Share, "mysql"+name))
		if errors.Is(err, os.ErrNotExist) {
			text, err = os.ReadFile(filepath.Join(s.opts.Share, "mariadb"+name))
		}
		if err != nil {
			return fmt.Errorf("make MariaDB's system tables: %w", err)
		}
		statements.Write(text)
	}
	c := s.command("--bootstrap", "--log-warnings=0", "--innodb-log-file-size=16M", "--innodb-flush-log-at-trx-commit=0")
	cmd := exec.CommandContext(ctx, c.path, c.args...)
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.SysProcAttr = c.dir, c.env, statements, sysProcAttr(c)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("make MariaDB's system tables: %w:\n%s", err, out)
	}
	return s.secure()
}

// rootUser lets the user in that tests come as; it is run at every start.
const rootUser = "CREATE USER IF NOT EXISTS root@'" + loopback + "';\n" +
	"GRANT ALL ON *.* TO root@'" + loopback + "' WITH GRANT OPTION;\n"

// serving are the arguments of a server that runs.
func (s *MariaDB) serving() []string {
	args := []string{
		"--bind-address=" + loopback, "--port=" + strconv.Itoa(s.port), "--socket=" + s.file("socket"), "--pid-file=" + s.file("pid"),
		"--init-file=" + s.file("init.sql"), "--skip-name-resolve", "--skip-log-bin", "--max-connections=300", "--default-time-zone=+00:00",
		"--innodb-log-file-size=64M", "--innodb-buffer-pool-size=128M", "--log-warnings=1", "--max-allowed-packet=64M",
	}
	if s.opts.CertFile != "" {
		args = append(args, "--ssl-cert="+s.file("server.crt"), "--ssl-key="+s.file("server.key"), "--ssl-ca="+s.file("root.crt"))
	}
	if !s.opts.Durable {
		// The data may be lost after the run, and no test kills a shared server.
		args = append(args, "--innodb-flush-log-at-trx-commit=0", "--innodb-doublewrite=0", "--sync-frm=0")
	}
	for _, setting := range s.opts.Settings {
		args = append(args, "--"+strings.TrimPrefix(setting, "--"))
	}
	return args
}

// secure puts certificates where the server's user can read them.
func (s *MariaDB) secure() error {
	files := map[string]string{"server.crt": s.opts.CertFile, "server.key": s.opts.KeyFile, "root.crt": s.opts.CAFile}
	for name, from := range files {
		if from == "" {
			continue
		}
		data, err := os.ReadFile(from)
		if err == nil {
			err = s.write(name, data)
		}
		if err != nil {
			return fmt.Errorf("configure MariaDB's TLS: %w", err)
		}
	}
	return nil
}

// write writes a file of the server for its user alone.
func (s *MariaDB) write(name string, data []byte) error {
	if err := os.WriteFile(s.file(name), data, 0o600); err != nil {
		return err
	}
	return s.own(name)
}

// own gives a file to the server's user.
func (s *MariaDB) own(name string) error {
	if c := s.credential; c != nil {
		return os.Chown(s.file(name), int(c.Uid), int(c.Gid))
	}
	return nil
}
