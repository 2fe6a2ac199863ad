package testenv

import "testing"

// EnvMongoDB is the URL of a MongoDB server, without a database, whose user may do everything.
const EnvMongoDB = "OUTRIDER_TEST_MONGODB_URL"

// MongoDB returns the URL of the shared server, and the name of a database that no other test uses. The test drops
// it, if it minds: this package knows no driver. The server of `make test` has neither replica sets nor transactions.
func MongoDB(tb testing.TB) (url, database string) {
	tb.Helper()
	url = shared(tb, EnvMongoDB, "MongoDB")
	return url, databaseName(tb.Name())
}
