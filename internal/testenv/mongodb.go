package testenv

import (
	"testing"

	"github.com/outriderhq/outrider/internal/testenv/provision"
	"github.com/outriderhq/outrider/internal/testenv/server"
)

// EnvMongoDB is the URL of a MongoDB server, without a database, whose user may do everything.
const EnvMongoDB = "OUTRIDER_TEST_MONGODB_URL"

// MongoDB returns the URL of the shared server, and the name of a database that no other test uses. The test drops
// it, if it minds: this package knows no driver. The server of `make test` has neither replica sets nor transactions.
func MongoDB(tb testing.TB) (url, database string) {
	tb.Helper()
	url = shared(tb, EnvMongoDB, "MongoDB")
	return url, databaseName(tb.Name())
}

// StartSecureMongoDB starts a private server of MongoDB's protocol with TLS, whose certificate is for 127.0.0.1 and localhost, and returns
// its URL. It is killed when the test ends.
func StartSecureMongoDB(tb testing.TB, a *Authority) (url string) {
	tb.Helper()
	skipShort(tb)
	found, err := provision.Host{}.MongoDB(tb.Context())
	if err != nil {
		missing(tb, "%v", err)
	}
	c := a.Issue("127.0.0.1", "localhost")
	s, err := server.StartMongoDB(tb.Context(), server.MongoOptions{Java: found.Java, Jars: found.Jars, Class: provision.MongoClass, CertFile: c.CertFile, KeyFile: c.KeyFile})
	if err != nil {
		tb.Fatalf("testenv: %v", err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Errorf("testenv: close the private server for MongoDB: %v", err)
		}
	})
	return s.URL()
}
