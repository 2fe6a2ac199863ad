package my

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

// connectLimit is how long a connection may take to open, where the URL does
// not say (connect_timeout): a server that accepts connections and never answers would be waited for without end.
const connectLimit = 10 * time.Second

// lockLimit is for how long a statement waits for another transaction's lock, in seconds, where nothing else is said.
const lockLimit = 10

// defaultMaxConns bounds the connections where nothing else is said.
const defaultMaxConns = 8

// Connection says how a database is reached.
type Connection struct {
	// URL is mysql://user:password@host:port/database, or mariadb://. Parameters: tls (true, skip-verify or false), connect_timeout in
	// seconds, and socket, the path of a Unix socket in place of host and port.
	URL string
	TLS TLS

	MaxConns int // connections at most; 0: 8
	LockWait int // seconds for which a statement waits for another transaction's lock; 0: 10
}

// errURL does not repeat the URL, which may hold a password.
var errURL = errors.New("the URL cannot be parsed; write mysql://user:password@host:port/database " +
	"and percent-encode special characters of the password")

// config is the driver's configuration for the URL.
func (c *Connection) config() (*mysql.Config, error) {
	if c.URL == "" {
		return nil, errors.New("no URL is given; write mysql://user:password@host:port/database")
	}
	u, err := url.Parse(c.URL)
	if err != nil || u.Scheme != "mysql" && u.Scheme != "mariadb" || strings.Contains(u.Host, "@") || strings.Contains(u.Path, "@") {
		return nil, errURL
	}
	cfg := mysql.NewConfig()
	cfg.User = u.User.Username()
	cfg.Passwd, _ = u.User.Password()
	cfg.Net, cfg.Addr = "tcp", net.JoinHostPort(cmp.Or(u.Hostname(), "127.0.0.1"), cmp.Or(u.Port(), "3306"))
	cfg.DBName = strings.TrimPrefix(u.Path, "/")
	cfg.Timeout = connectLimit
	mode, err := parameters(cfg, u.Query())
	if err != nil {
		return nil, err
	}
	cfg.Loc, cfg.ParseTime = time.UTC, true
	cfg.ClientFoundRows, cfg.InterpolateParams = true, true
	cfg.ConnectionAttributes = "program_name:outrider"
	cfg.Logger = &mysql.NopLogger{} // errors are returned as well
	cfg.Params = map[string]string{
		"time_zone":                "'+00:00'",
		"sql_mode":                 "'STRICT_ALL_TABLES,NO_BACKSLASH_ESCAPES,NO_ENGINE_SUBSTITUTION'",
		"autocommit":               "1",
		"innodb_lock_wait_timeout": strconv.Itoa(cmp.Or(c.LockWait, lockLimit)),
	}
	return cfg, c.TLS.secure(cfg, mode, u.Hostname())
}

// parameters takes what follows the question mark, and returns what the parameter tls says.
func parameters(cfg *mysql.Config, all url.Values) (mode string, err error) {
	for name := range all {
		value := all.Get(name)
		switch name {
		case "tls":
			mode = value
		case "socket":
			cfg.Net, cfg.Addr = "unix", value
		case "connect_timeout":
			if cfg.Timeout, err = time.ParseDuration(value + "s"); err != nil || cfg.Timeout <= 0 {
				return "", errors.New("the URL's parameter connect_timeout is not a number of seconds")
			}
		default:
			return "", fmt.Errorf("the URL has the parameter %s; those that there are: tls, connect_timeout, socket", name)
		}
	}
	return mode, nil
}

// Open returns connections to the database. It does not connect.
func (c *Connection) Open() (*sql.DB, error) {
	cfg, err := c.config()
	if err != nil {
		return nil, err
	}
	inner, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, errURL // what the driver says may repeat parts of it
	}
	db := sql.OpenDB(&connector{Connector: inner, cfg: cfg})
	limit := cmp.Or(c.MaxConns, defaultMaxConns)
	db.SetMaxOpenConns(limit)
	db.SetMaxIdleConns(limit)
	db.SetConnMaxIdleTime(5 * time.Minute) // servers and what is before them end idle connections without a word
	return db, nil
}

// connector opens connections whose sessions are as the package says.
type connector struct {
	driver.Connector
	cfg *mysql.Config
}

// Connect implements [driver.Connector].
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, c.notConnected(err)
	}
	// The variable for this has two names, and no server has both.
	const isolation = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"
	e, ok := conn.(driver.ExecerContext)
	if !ok {
		_ = conn.Close() // it cannot be used
		return nil, fmt.Errorf("the driver's connection is a %T, which executes nothing", conn)
	}
	if _, err := e.ExecContext(ctx, isolation, nil); err != nil {
		_ = conn.Close() // the error says more
		return nil, c.notConnected(err)
	}
	return conn, nil
}

// Database names the database of a URL, to compare two URLs; empty: it cannot be parsed.
func Database(text string) string {
	cfg, err := (&Connection{URL: text, TLS: TLS{}}).config()
	if err != nil {
		return ""
	}
	return "mysql://" + cfg.Addr + "/" + cfg.DBName
}
