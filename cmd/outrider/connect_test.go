package main

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/internal/testenv"
)

// A database that lets no connection in is one problem, said once, by its decisive
// cause and with what to do, whatever command meets it; never with the password.
func TestADatabaseThatLetsNobodyInIsSaidOnce(t *testing.T) {
	t.Parallel()
	server := testenv.StartSecurePostgres(t, testenv.NewAuthority(t), "host all relay 127.0.0.1/32 scram-sha-256", "host all nosuch 127.0.0.1/32 trust")
	admin, err := pgx.Connect(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{"CREATE ROLE relay LOGIN PASSWORD 'right'", "CREATE ROLE other LOGIN"} {
		if _, err := admin.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	at := fmt.Sprintf("127.0.0.1:%d", admin.Config().Port)
	if err := admin.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	plain := testenv.Postgres(t) // without TLS
	for name, c := range map[string]struct{ url, what, fix string }{
		"nothing listens": {"relay:hunter2@127.0.0.1:1/shop", "cannot connect to PostgreSQL at 127.0.0.1:1: connection refused", "start the server"},
		"two addresses":   {"relay:hunter2@localhost:1/shop", "cannot connect to PostgreSQL at localhost:1: connection refused", "start the server"},
		"several hosts": {"relay:hunter2@localhost:1,127.0.0.1:2/shop", "cannot connect to PostgreSQL at localhost:1: connection refused",
			"start the server"},
		"one of the hosts":  {"relay:hunter2@127.0.0.1:1," + at + "/postgres", `password authentication failed for user "relay"`, "correct user or password"},
		"wrong host name":   {"relay:hunter2@db.invalid:5432/shop", `the host "db.invalid" cannot be found`, "correct the host"},
		"wrong password":    {"relay:hunter2@" + at + "/postgres", `password authentication failed for user "relay"`, "correct user or password"},
		"no database":       {"relay:right@" + at + "/shop", `database "shop" does not exist`, `CREATE DATABASE "shop"`},
		"no role":           {"nosuch:hunter2@" + at + "/postgres", `role "nosuch" does not exist`, `CREATE ROLE "nosuch" LOGIN`},
		"pg_hba":            {"other:hunter2@" + at + "/postgres", `no pg_hba.conf entry for host "127.0.0.1", user "other"`, "pg_hba.conf, with TLS or without"},
		"no TLS":            {strings.TrimSuffix(strings.TrimPrefix(plain, "postgres://"), "?sslmode=disable") + "?sslmode=require", "server refused TLS", "ssl = on"},
		"no such parameter": {strings.TrimPrefix(plain, "postgres://") + "&sslmod=disable", `unrecognized configuration parameter "sslmod"`, "correct the parameters of the url"},
		"no database named": {"nosuch:hunter2@" + at, `user "nosuch" into database "nosuch"`, `CREATE ROLE "nosuch" LOGIN`},
		"unknown authority": {"relay:right@" + at + "/postgres?sslmode=verify-full", "certificate signed by unknown authority",
			"name the authority"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, "")
			s.write(fmt.Sprintf("admin: {listen: off}\nsources:\n  app: {type: postgres, url: %q}\ndestinations:\n  out: {type: discard}\n"+
				"routes:\n  one: {from: app, to: out}\n  two: {from: app, to: out}\n", "postgres://"+c.url))
			for _, args := range []string{"init", "run", "doctor", "status", "parked list", "publish --type a --payload 1", "tail app"} {
				got := s.call(strings.Fields(args)...)
				said := got.out + got.err
				if strings.Count(said, c.what) != 1 || strings.Count(said, c.fix) != 1 {
					t.Errorf("%s: want once %q and %q in\n%s", args, c.what, c.fix, said)
				}
				for _, never := range []string{"hunter2", "failed to connect", "dial tcp", "outrider init"} {
					if strings.Contains(said, never) {
						t.Errorf("%s: %q in\n%s", args, never, said)
					}
				}
			}
		})
	}
}

// A destination in a database that lets no connection in is told by doctor and at the start in the same words, and its address names the table.
func TestADestinationWhoseDatabaseLetsNobodyIn(t *testing.T) {
	t.Parallel()
	for name, destination := range map[string]string{"river": "type: river", "sql": "type: sql, table: copy"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, "")
			s.write(fmt.Sprintf("admin: {listen: off}\nsources:\n  app: {type: postgres, url: %q}\ndestinations:\n  out: {%s, url: %q}\nroutes:\n  one: {from: app, to: out}\n",
				testenv.Postgres(t), destination, "postgres://relay:hunter2@127.0.0.1:1/shop"))
			if got := s.call("init"); got.code != 0 {
				t.Fatal(got)
			}
			got := s.call("doctor")
			const what = "cannot connect to PostgreSQL at 127.0.0.1:1: connection refused"
			if strings.Count(got.out, what) != 1 || strings.Count(got.out, "start the server") != 1 {
				t.Errorf("want once %q in\n%s", what, got.out)
			}
			for _, never := range []string{"hunter2", "failed to connect", "dial"} {
				if strings.Contains(got.out, never) {
					t.Errorf("%q in\n%s", never, got.out)
				}
			}
		})
	}
}
