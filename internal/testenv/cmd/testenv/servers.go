package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/outriderhq/outrider/internal/testenv"
	"github.com/outriderhq/outrider/internal/testenv/provision"
)

// installLimit bounds the installation and start of one server.
const installLimit = 15 * time.Minute

// started is a server that we started.
type started interface {
	PID() int
	Dir() string
	Close() error
}

// settings say how servers are started.
type settings struct {
	keep    bool // they outlive this command
	logical bool // PostgreSQL's log can be decoded
	brief   bool // the databases' files are in memory, if there is room, and Kafka optimises little
	browser bool // Chromium is installed

	prometheus bool // Prometheus is installed

	postgres int    // the major version of PostgreSQL, which is the only server; 0: any that is there
	mariadb  string // the series of MariaDB, which is the only server; "": any that is there
}

// servers are the servers of a run.
type servers struct {
	settings
	kinds []kind
	ours  []running
}

// running is a server that we started and the variable that names it.
type running struct {
	name     string
	variable string
	value    string
	server   started
}

// start starts every server that is not given by its variable. A server that
// cannot be had is an error in CI and otherwise leaves its variable empty.
func (s *servers) start(ctx context.Context) error {
	switch {
	case s.postgres != 0:
		return s.onlyPostgres(ctx)
	case s.mariadb != "":
		return s.onlyMariaDB(ctx)
	}
	s.announce(ctx)
	if s.browser {
		if err := findProgram(ctx, "Chromium", provision.Host.Chromium); err != nil {
			return err
		}
	}
	if s.prometheus {
		if err := findProgram(ctx, "Prometheus", provision.Host.Prometheus); err != nil {
			return err
		}
	}
	if s.brief && s.has("PostgreSQL") {
		err := findProgram(ctx, "PgBouncer", provision.Host.PgBouncer)
		if err == nil {
			err = findProgram(ctx, "pg_repack", provision.Host.PgRepack)
		}
		if err != nil {
			return err
		}
	}
	for _, k := range s.kinds {
		if os.Getenv(k.variable) != "" {
			s.useGiven(ctx, k)
			continue
		}
		err := s.startOne(ctx, k)
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return ctx.Err()
		case testenv.InCI():
			return withDocker(ctx, fmt.Errorf("no %s, and CI=true wants every test to run: %w", k.name, err))
		default:
			say("no %s, so the tests that need it are skipped: %v", k.name, withDocker(ctx, err))
		}
	}
	return nil
}

// has reports whether a server of this name is started or used.
func (s *servers) has(name string) bool {
	return slices.ContainsFunc(s.kinds, func(k kind) bool { return k.name == name })
}

// onlyPostgres starts PostgreSQL of a major version. Tests that start their own take the same one.
func (s *servers) onlyPostgres(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, installLimit)
	defer cancel()
	bin, err := provision.Host{Install: true, Say: say}.PostgresMajor(ctx, s.postgres)
	if err != nil {
		return err
	}
	if err := os.Setenv(provision.EnvPostgresBin, bin); err != nil {
		return err
	}
	return s.startOne(ctx, kinds[0])
}

// onlyMariaDB is onlyPostgres for MariaDB of a series.
func (s *servers) onlyMariaDB(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, installLimit)
	defer cancel()
	found, err := provision.Host{Install: true, Say: say}.MariaDBSeries(ctx, s.mariadb)
	if err != nil {
		return err
	}
	if err := os.Setenv(provision.EnvMariaDB, found.Program); err != nil {
		return err
	}
	return s.startOne(ctx, kinds[1])
}

// findProgram installs a program where it is missing. Where it cannot be had, the tests
// that need it are skipped; in CI that is an error.
func findProgram(ctx context.Context, name string, find func(provision.Host, context.Context) (string, error)) error {
	ctx, cancel := context.WithTimeout(ctx, installLimit)
	defer cancel()
	_, err := find(provision.Host{Install: true, Say: say}, ctx)
	switch {
	case err == nil:
		return nil
	case testenv.InCI():
		return fmt.Errorf("no %s, and CI=true wants every test to run: %w", name, err)
	}
	say("no %s, so the tests that need it are skipped: %v", name, err)
	return nil
}

// announce lists the programs that will be installed, before any is.
func (s *servers) announce(ctx context.Context) {
	var missing []string
	if s.browser {
		missing = provision.Host{}.MissingChromium(ctx)
	}
	if s.brief && s.has("PostgreSQL") {
		missing = append(missing, provision.Host{}.MissingPgBouncer(ctx)...)
	}
	for _, k := range s.kinds {
		if os.Getenv(k.variable) != "" && !testenv.InCI() {
			continue // nothing is installed for it
		}
		for _, m := range k.missing(provision.Host{}, ctx) {
			if !slices.Contains(missing, m) {
				missing = append(missing, m)
			}
		}
	}
	if len(missing) == 0 {
		say("nothing to install")
		return
	}
	say("installing first what is missing: %s", strings.Join(missing, "; "))
}

// startOne starts one server and sets its variable.
func (s *servers) startOne(ctx context.Context, k kind) error {
	ctx, cancel := context.WithTimeout(ctx, installLimit)
	defer cancel()
	begin := time.Now()
	say("starting %s ...", k.name)
	srv, value, err := k.start(ctx, provision.Host{Install: true, Say: say}, s.settings)
	if err != nil {
		return err
	}
	s.ours = append(s.ours, running{k.name, k.variable, value, srv})
	say("%s (process %d) answers at %s after %v", k.name, srv.PID(), value, time.Since(begin).Round(100*time.Millisecond))
	return os.Setenv(k.variable, value)
}

// useGiven uses a server that the environment names. Tests that kill their servers
// still need its programs: they are installed in CI, and reported as missing elsewhere.
func (s *servers) useGiven(ctx context.Context, k kind) {
	say("using the %s of %s", k.name, k.variable)
	host := provision.Host{Install: testenv.InCI(), Say: say}
	if err := k.find(ctx, host); err != nil {
		say("tests that start a %s of their own cannot run: %v", k.name, err)
	}
}

// withDocker adds the way with docker to an error, where docker runs.
func withDocker(ctx context.Context, err error) error {
	if hint := provision.DockerHint(ctx); hint != "" {
		return errors.Join(err, errors.New(hint))
	}
	return err
}

// stop stops the servers that we started, the last one first.
func (s *servers) stop() {
	for _, r := range slices.Backward(s.ours) {
		if err := r.server.Close(); err != nil {
			say("stop %s: %v", r.name, err)
			continue
		}
		say("%s stopped", r.name)
	}
}

// describe says how to use and stop servers that stay.
func (s *servers) describe() {
	for _, r := range s.ours {
		say("%s goes on as process %d; to end it: kill -INT %[2]d; rm -r %[3]s", r.name, r.server.PID(), r.server.Dir())
	}
	for _, r := range s.ours {
		fmt.Printf("export %s='%s'\n", r.variable, r.value)
	}
}
