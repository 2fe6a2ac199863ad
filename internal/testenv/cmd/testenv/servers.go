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
	"github.com/outriderhq/outrider/internal/testenv/server"
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

// memoryLeast is the free memory that a database needs: a run of the tests takes up
// to half of it.
const memoryLeast = 3 << 30

// servers are the servers of a run.
type servers struct {
	settings
	ours []running
}

// running is a server that we started and the variable that names it.
type running struct {
	name     string
	variable string
	value    string
	server   started
}

// kind says how a server is had.
type kind struct {
	name     string
	variable string
	start    func(ctx context.Context, host provision.Host, with settings) (started, string, error)
	// find looks for the server's programs, for tests that start their own.
	find func(ctx context.Context, host provision.Host) error
	// missing says what would be installed for the server.
	missing func(host provision.Host, ctx context.Context) []string
}

var kinds = []kind{
	{"PostgreSQL", testenv.EnvPostgres, startPostgres, func(ctx context.Context, host provision.Host) error {
		_, err := host.Postgres(ctx)
		return err
	}, provision.Host.MissingPostgres},
	{"MariaDB", testenv.EnvMySQL, startMariaDB, func(ctx context.Context, host provision.Host) error {
		_, err := host.MariaDB(ctx)
		return err
	}, provision.Host.MissingMariaDB},
	{"Kafka", testenv.EnvKafka, startKafka, func(ctx context.Context, host provision.Host) error {
		_, err := host.Kafka(ctx)
		return err
	}, provision.Host.MissingKafka},
	{"MongoDB", testenv.EnvMongoDB, startMongoDB, func(ctx context.Context, host provision.Host) error {
		_, err := host.MongoDB(ctx)
		return err
	}, provision.Host.MissingMongoDB},
	{"RabbitMQ", testenv.EnvRabbitMQ, startRabbitMQ, func(ctx context.Context, host provision.Host) error {
		_, err := host.RabbitMQ(ctx)
		return err
	}, provision.Host.MissingRabbitMQ},
	{"Redis", testenv.EnvRedis, startRedis, func(ctx context.Context, host provision.Host) error {
		_, err := host.Redis(ctx)
		return err
	}, provision.Host.MissingRedis},
}

func startPostgres(ctx context.Context, host provision.Host, with settings) (started, string, error) {
	bin, err := host.Postgres(ctx)
	if err != nil {
		return nil, "", err
	}
	opts := server.PostgresOptions{Bin: bin, Keep: with.keep, Logical: with.logical, KeepTemplate: true}
	if with.brief {
		opts.Folder = server.MemoryFolder(memoryLeast)
	}
	s, err := server.StartPostgres(ctx, opts)
	if err != nil {
		return nil, "", err
	}
	return s, s.URL(), os.Setenv(testenv.EnvPostgresTemplate, s.Template())
}

func startMariaDB(ctx context.Context, host provision.Host, with settings) (started, string, error) {
	found, err := host.MariaDB(ctx)
	if err != nil {
		return nil, "", err
	}
	opts := server.MariaDBOptions{Program: found.Program, Share: found.Share, Keep: with.keep}
	if !with.brief { // a measured server must have enough memory for its table
		opts.Settings = []string{"innodb-buffer-pool-size=1G", "innodb-log-file-size=512M"}
	}
	if with.brief {
		opts.Folder = server.MemoryFolder(memoryLeast)
	}
	s, err := server.StartMariaDB(ctx, opts)
	if err != nil {
		return nil, "", err
	}
	return s, s.URL(), nil
}

func startKafka(ctx context.Context, host provision.Host, with settings) (started, string, error) {
	found, err := host.Kafka(ctx)
	if err != nil {
		return nil, "", err
	}
	s, err := server.StartKafka(ctx, server.KafkaOptions{
		Java: found.Java, Jars: found.Jars, Archive: found.Archive, Keep: with.keep, Brief: with.brief,
	})
	if err != nil {
		return nil, "", err
	}
	return s, strings.Join(s.Brokers(), ","), nil
}

func startMongoDB(ctx context.Context, host provision.Host, with settings) (started, string, error) {
	found, err := host.MongoDB(ctx)
	if err != nil {
		return nil, "", err
	}
	s, err := server.StartMongoDB(ctx, server.MongoOptions{Java: found.Java, Jars: found.Jars, Class: provision.MongoClass, Keep: with.keep})
	if err != nil {
		return nil, "", err
	}
	return s, s.URL(), nil
}

func startRabbitMQ(ctx context.Context, host provision.Host, with settings) (started, string, error) {
	sbin, err := host.RabbitMQ(ctx)
	if err != nil {
		return nil, "", err
	}
	s, err := server.StartRabbitMQ(ctx, server.RabbitOptions{Scripts: sbin, Keep: with.keep})
	if err != nil {
		return nil, "", err
	}
	return s, s.URL(), nil
}

func startRedis(ctx context.Context, host provision.Host, with settings) (started, string, error) {
	program, err := host.Redis(ctx)
	if err != nil {
		return nil, "", err
	}
	opts := server.RedisOptions{Program: program, Keep: with.keep}
	if with.brief {
		opts.Settings = []string{"appendonly no"}
	}
	s, err := server.StartRedis(ctx, opts)
	if err != nil {
		return nil, "", err
	}
	return s, s.Address(), nil
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
	announce(ctx, s.browser)
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
	for _, k := range kinds {
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
func announce(ctx context.Context, browser bool) {
	var missing []string
	if browser {
		missing = provision.Host{}.MissingChromium(ctx)
	}
	for _, k := range kinds {
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
