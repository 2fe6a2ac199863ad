package testenv

import (
	"context"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/outriderhq/outrider/internal/testenv/provision"
)

// The environment variables that name the shared servers.
const (
	// EnvPostgres is the URL of a database on a PostgreSQL server whose user
	// may create databases.
	EnvPostgres = "OUTRIDER_TEST_POSTGRES_URL"

	// EnvKafka is a list of brokers (host:port), separated by commas.
	EnvKafka = "OUTRIDER_TEST_KAFKA_BROKERS"

	// EnvMySQL is the URL (mysql://user:password@host:port/) of a MariaDB or MySQL
	// server whose user may create databases and users.
	EnvMySQL = "OUTRIDER_TEST_MYSQL_URL"
)

// EnvPostgresTemplate is the folder of a new cluster of PostgreSQL, which servers of one test are copies of. Without, each makes its own.
const EnvPostgresTemplate = "OUTRIDER_TEST_POSTGRES_TEMPLATE"

// cleanupLimit limits the cleanup after a test, whose own context has ended.
const cleanupLimit = 30 * time.Second

// Postgres returns the URL of a new empty database on the shared server. It is
// dropped when the test ends, also with open connections.
func Postgres(tb testing.TB) string {
	tb.Helper()
	return database(tb, "template0") // template1 cannot be copied while anybody is connected to it
}

// PostgresCopy is [Postgres] with the contents of a database that an earlier call returned. That database must have no connections.
func PostgresCopy(tb testing.TB, original string) string {
	tb.Helper()
	u, err := url.Parse(original)
	if err != nil {
		tb.Fatal(err)
	}
	return database(tb, strings.TrimPrefix(u.Path, "/"))
}

// database returns the URL of a new copy of the database template.
func database(tb testing.TB, template string) string {
	tb.Helper()
	server := shared(tb, EnvPostgres, "PostgreSQL")
	url, drop, err := createDatabase(tb.Context(), server, tb.Name(), template)
	if err != nil {
		tb.Fatalf("testenv: %s: %v", EnvPostgres, err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), cleanupLimit)
		defer cancel()
		if err := drop(ctx); err != nil {
			tb.Errorf("testenv: %s: %v", EnvPostgres, err)
		}
	})
	return url
}

// MySQL returns the URL of a new empty database on the shared server of MariaDB, or of MySQL. It is dropped when
// the test ends.
func MySQL(tb testing.TB) string {
	tb.Helper()
	server := shared(tb, EnvMySQL, "MariaDB")
	url, drop, err := createSchema(tb.Context(), server, tb.Name())
	if err != nil {
		tb.Fatalf("testenv: %s: %v", EnvMySQL, err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), cleanupLimit)
		defer cancel()
		if err := drop(ctx); err != nil {
			tb.Errorf("testenv: %s: %v", EnvMySQL, err)
		}
	})
	return url
}

// Kafka returns the addresses of the shared broker. Topics live on after the
// test and are not made by producing to them: the test makes its own, with
// names that no other test uses.
func Kafka(tb testing.TB) []string {
	tb.Helper()
	var brokers []string
	for broker := range strings.SplitSeq(shared(tb, EnvKafka, "Kafka"), ",") {
		if broker = strings.TrimSpace(broker); broker != "" {
			brokers = append(brokers, broker)
		}
	}
	return brokers
}

// Chromium returns the program of a browser that is driven without a screen.
func Chromium(tb testing.TB) string {
	tb.Helper()
	skipShort(tb)
	path, err := provision.Host{}.Chromium(tb.Context())
	if err != nil {
		missing(tb, "%v", err)
	}
	return path
}

// shared returns the value of the variable that names a shared server.
func shared(tb testing.TB, variable, what string) string {
	tb.Helper()
	skipShort(tb)
	value := os.Getenv(variable)
	if value == "" {
		missing(tb, "%s is not set: `make test` starts %s and sets it", variable, what)
	}
	return value
}

// skipShort skips a test that needs a server under -short.
func skipShort(tb testing.TB) {
	tb.Helper()
	if testing.Short() {
		tb.Skip("testenv: needs a server, which -short excludes")
	}
}

// missing ends a test that cannot have its server.
func missing(tb testing.TB, format string, args ...any) {
	tb.Helper()
	if InCI() {
		tb.Fatalf("testenv: "+format, args...)
	}
	tb.Skipf("testenv: "+format, args...)
}

// InCI reports whether this is a run of continuous integration (CI=true), where
// every test must run.
func InCI() bool { return os.Getenv("CI") == "true" }
