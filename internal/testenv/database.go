package testenv

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5"
)

// createDatabase makes an empty database on a server and returns its URL and
// what drops it. The test's name becomes part of the database's, so that a
// look at the server tells whose it is.
func createDatabase(ctx context.Context, server, test string) (string, func(context.Context) error, error) {
	u, err := url.Parse(server)
	if err != nil || u.Scheme == "" {
		// The parser's own error repeats the URL, and with it the password.
		return "", nil, errors.New("not a URL such as postgres://user@host:port/database")
	}
	name := databaseName(test)
	// template0, because template1 cannot be copied while anybody is connected to it.
	if err := execOn(ctx, server, "CREATE DATABASE "+name+" TEMPLATE template0"); err != nil {
		return "", nil, fmt.Errorf("create database %s: %w", name, err)
	}
	u.Path = "/" + name
	drop := func(ctx context.Context) error {
		if err := execOn(ctx, server, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)"); err != nil {
			return fmt.Errorf("drop database %s: %w", name, err)
		}
		return nil
	}
	return u.String(), drop, nil
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

// execOn runs one statement on a connection of its own.
func execOn(ctx context.Context, server, statement string) error {
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, statement)
	return errors.Join(err, conn.Close(ctx))
}
