// Command testenv runs a command with the servers that Outrider's tests need:
//
//	go run ./internal/testenv/cmd/testenv -- go test -race ./...
//
// It installs what is missing, starts PostgreSQL, MariaDB, Kafka, RabbitMQ, a server of MongoDB's protocol and Redis on free loopback
// ports, sets OUTRIDER_TEST_POSTGRES_URL, OUTRIDER_TEST_MYSQL_URL, OUTRIDER_TEST_KAFKA_BROKERS, OUTRIDER_TEST_AMQP_URL,
// OUTRIDER_TEST_MONGODB_URL and OUTRIDER_TEST_REDIS_ADDRESS, runs the command, stops the servers and exits with the command's status. A server
// whose variable is set already is used as it is. With -keep, the servers stay;
// with -logical, PostgreSQL writes a log that Debezium can read; with -brief, the databases'
// files are kept in memory where there is room, MariaDB has little memory, and Kafka's machine code is made
// quickly instead of well, and PgBouncer and pg_repack are installed: for tests, and not for measuring. With -browser, Chromium
// is installed where it is missing, for the tests of the dashboard, and with -prometheus Prometheus. With -postgres,
// PostgreSQL is of that major version, from Maven, also for tests that start their own, and it is the only
// server; -mariadb is the same for a series of MariaDB. With -servers, only the servers that it names are started.
//
// Where a server cannot be had, the command runs without it and its tests are
// skipped; with CI=true that is an error.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Exit statuses of our own, as shells use them.
const (
	exitFailure = 1
	exitUsage   = 2
	exitSignal  = 128 // plus the number of the signal
)

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	flags := flag.NewFlagSet("testenv", flag.ContinueOnError)
	keep := flags.Bool("keep", false, "leave the servers running and say how to use and stop them")
	logical := flags.Bool("logical", false, "start PostgreSQL with wal_level = logical, which readers of its log need")
	brief := flags.Bool("brief", false, "servers for minutes: the databases' files are in memory, if 3 GiB of it are free, and Kafka optimises little")
	browser := flags.Bool("browser", false, "install Chromium too, for the tests of the dashboard")
	prometheus := flags.Bool("prometheus", false, "install Prometheus too, for the tests of the alerts")
	postgres := flags.Int("postgres", 0, "start PostgreSQL of this major version (14 to 18), from Maven, and no other server")
	mariadb := flags.String("mariadb", "", "start MariaDB of this series (10.11 or 11.4), from Maven, and no other server")
	names := flags.String("servers", "", "start only these `servers`, separated by commas, such as Kafka,MariaDB")
	flags.Usage = func() {
		fmt.Fprintln(flags.Output(), "usage: testenv [-keep] [-logical] [-brief] [-browser] [-prometheus] [-servers NAME,... | -postgres N | -mariadb N.N] -- command [argument ...]")
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return exitUsage
	}
	if flags.NArg() == 0 && !*keep {
		flags.Usage()
		return exitUsage
	}

	chosen, err := kindsNamed(*names)
	if err != nil {
		say("%v", err)
		return exitUsage
	}

	signals := received()
	servers := servers{kinds: chosen, settings: settings{keep: *keep, logical: *logical, brief: *brief, browser: *browser, prometheus: *prometheus, postgres: *postgres, mariadb: *mariadb}}
	if !*keep {
		defer servers.stop()
	}
	if err := startAll(&servers, signals); err != nil {
		say("%v", err)
		return exitFailure
	}
	if *keep {
		defer servers.describe()
	}
	if flags.NArg() == 0 {
		return 0
	}
	return runCommand(flags.Args(), signals)
}

// received returns the signals that ask the run to end, from now on.
func received() <-chan syscall.Signal {
	in := make(chan os.Signal, 4)
	signal.Notify(in, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	out := make(chan syscall.Signal, 4)
	go func() {
		for sig := range in {
			if s, ok := sig.(syscall.Signal); ok {
				out <- s
			}
		}
	}()
	return out
}

// startAll starts the servers; a signal meanwhile calls it off.
func startAll(s *servers, signals <-chan syscall.Signal) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- s.start(ctx) }()
	select {
	case err := <-done:
		return err
	case sig := <-signals:
		say("%v: stopping", sig)
		cancel()
		return fmt.Errorf("interrupted while starting: %w", <-done)
	}
}

// say reports progress to the user, apart from the command's own output.
func say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "testenv: "+format+"\n", args...)
}
