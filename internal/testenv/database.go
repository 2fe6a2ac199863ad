package testenv

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
)

// createDatabase makes a copy of the database template on a server and returns its URL and
// a function that drops it. The database's name contains the test's name.
func createDatabase(ctx context.Context, server, test, template string) (string, func(context.Context) error, error) {
	u, err := url.Parse(server)
	if err != nil || u.Scheme == "" {
		// The parser's own error repeats the URL, and with it the password.
		return "", nil, errors.New("not a URL such as postgres://user@host:port/database")
	}
	name := databaseName(test)
	if err := administer(ctx, server, func(conn *pgx.Conn) error { return create(ctx, conn, name, template) }); err != nil {
		return "", nil, fmt.Errorf("create database %s: %w", name, err)
	}
	u.Path = "/" + name
	drop := func(ctx context.Context) error {
		err := administer(ctx, server, func(conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)")
			return err
		})
		if err != nil {
			return fmt.Errorf("drop database %s: %w", name, err)
		}
		return nil
	}
	return u.String(), drop, nil
}

// create makes a copy of a database. Its files are copied as they are, the only way before PostgreSQL 15, which costs half of what it
// takes to log each page: 19 ms of processor time instead of 35.
func create(ctx context.Context, conn *pgx.Conn, name, template string) error {
	var version int
	if err := conn.QueryRow(ctx, "SELECT current_setting('server_version_num')::int").Scan(&version); err != nil {
		return err
	}
	statement := "CREATE DATABASE " + name + " TEMPLATE " + template
	const choosesStrategy = 150_000
	if version >= choosesStrategy {
		statement += " STRATEGY file_copy"
	}
	_, err := conn.Exec(ctx, statement)
	return err
}

// spare are idle connections to the shared server. A connection costs the server as much as a small test's
// statements, so those that create databases are reused.
var spare struct {
	sync.Mutex
	conns []administrator
}

// watched is a connection that counts its reads in progress. After a slow write pgx may leave a read behind, whose goroutine
// a check for leaks finds in a connection that is never closed.
type watched struct {
	net.Conn
	reads *atomic.Int32
}

func (w watched) Read(b []byte) (int, error) {
	w.reads.Add(1)
	defer w.reads.Add(-1)
	return w.Conn.Read(b)
}

// administrator is a connection for databases.
type administrator struct {
	*pgx.Conn
	reads *atomic.Int32
}

// administer calls f with a connection to the server. One that failed, or that is still being read, serves no more.
func administer(ctx context.Context, server string, f func(*pgx.Conn) error) error {
	conn, err := spareOrNew(ctx, server)
	if err != nil {
		return err
	}
	if err := f(conn.Conn); err != nil || conn.reads.Load() > 0 {
		return errors.Join(err, conn.Close(ctx))
	}
	spare.Lock()
	defer spare.Unlock()
	spare.conns = append(spare.conns, conn)
	return nil
}

func spareOrNew(ctx context.Context, server string) (administrator, error) {
	spare.Lock()
	n := len(spare.conns)
	if n > 0 {
		conn := spare.conns[n-1]
		spare.conns = spare.conns[:n-1]
		spare.Unlock()
		return conn, nil
	}
	spare.Unlock()
	return administratorOf(ctx, server)
}

func administratorOf(ctx context.Context, server string) (administrator, error) {
	cfg, err := pgx.ParseConfig(server)
	if err != nil {
		return administrator{}, err
	}
	reads := new(atomic.Int32)
	dial := cfg.DialFunc
	cfg.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return watched{Conn: conn, reads: reads}, nil
	}
	conn, err := pgx.ConnectConfig(ctx, cfg)
	return administrator{Conn: conn, reads: reads}, err
}

// databaseName returns a new name made of the test's name and a random part.
func databaseName(test string) string {
	safe := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, strings.ToLower(test))
	const longest = 30 // with the random part under PostgreSQL's 63 bytes
	return "t_" + safe[:min(len(safe), longest)] + "_" + strings.ToLower(rand.Text())
}

// createSchema is createDatabase for a server of MariaDB or MySQL.
func createSchema(ctx context.Context, server, test string) (string, func(context.Context) error, error) {
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "mysql" {
		return "", nil, errors.New("not a URL such as mysql://user:password@host:port/")
	}
	name := databaseName(test)
	if err := execAt(ctx, u, "CREATE DATABASE "+name+" CHARACTER SET utf8mb4"); err != nil {
		return "", nil, fmt.Errorf("create database %s: %w", name, err)
	}
	drop := func(ctx context.Context) error {
		// Whoever has a transaction open there would have it wait.
		err := onServer(u, func(db *sql.DB) error { return endConnections(ctx, db, name) })
		if err == nil {
			err = execAt(ctx, u, "DROP DATABASE IF EXISTS "+name)
		}
		if err != nil {
			return fmt.Errorf("drop database %s: %w", name, err)
		}
		return nil
	}
	at := *u
	at.Path = "/" + name
	return at.String(), drop, nil
}

// endConnections ends the connections to a database.
func endConnections(ctx context.Context, db *sql.DB, name string) error {
	ids, err := connectionsTo(ctx, db, name)
	const notText = 3854 // MySQL reads others' statements too, and those of other tests may have bytes that are no text, as long as they run
	for refusedWith(err, notText) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
			ids, err = connectionsTo(ctx, db, name)
		}
	}
	if err != nil {
		return err
	}
	const noSuchThread = 1094
	for _, id := range ids {
		if _, err := db.ExecContext(ctx, fmt.Sprintf("KILL %d", id)); err != nil && !refusedWith(err, noSuchThread) {
			return err
		}
	}
	return nil
}

// refusedWith reports whether the server has answered with an error of this number.
func refusedWith(err error, number uint16) bool {
	var refused *mysql.MySQLError
	return errors.As(err, &refused) && refused.Number == number
}

// connectionsTo are the connections to a database.
func connectionsTo(ctx context.Context, db *sql.DB, name string) (ids []int64, err error) {
	rows, err := db.QueryContext(ctx, "SELECT id FROM information_schema.processlist WHERE db = ?", name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // Err returns the error
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

// execAt runs one statement on a connection of its own to a server of MariaDB or MySQL.
func execAt(ctx context.Context, server *url.URL, statement string) error {
	return onServer(server, func(db *sql.DB) error {
		_, err := db.ExecContext(ctx, statement)
		return err
	})
}

// onServer calls f with connections to a server of MariaDB or MySQL.
func onServer(server *url.URL, f func(*sql.DB) error) error {
	cfg := mysql.NewConfig()
	cfg.User, cfg.Net, cfg.Addr = server.User.Username(), "tcp", server.Host
	cfg.Passwd, _ = server.User.Password()
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	return errors.Join(f(db), db.Close())
}
