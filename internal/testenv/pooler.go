package testenv

import (
	"testing"

	"github.com/outriderhq/outrider/internal/testenv/provision"
	"github.com/outriderhq/outrider/internal/testenv/server"
)

// PgBouncer is a PgBouncer of one test. A method that fails marks the test as failed, and may be called from any goroutine until the test ends.
type PgBouncer struct {
	tb     testing.TB
	pooler *server.PgBouncer
}

// StartPgBouncer starts a pooler in front of a database's server, in the mode "session", "transaction" or "statement", with further settings. It is killed when the test ends.
func StartPgBouncer(tb testing.TB, database, mode string, settings ...string) *PgBouncer {
	tb.Helper()
	skipShort(tb)
	program, err := provision.Host{}.PgBouncer(tb.Context())
	if err != nil {
		missing(tb, "%v", err)
	}
	b, err := server.StartPgBouncer(tb.Context(), server.PgBouncerOptions{Program: program, Server: database, Mode: mode, Settings: settings})
	if err != nil {
		tb.Fatalf("testenv: %v", err)
	}
	p := &PgBouncer{tb: tb, pooler: b}
	tb.Cleanup(func() { p.check("close", b.Close()) })
	return p
}

// URL returns the URL of the database through the pooler. It stays the same over restarts.
func (p *PgBouncer) URL() string { return p.pooler.URL() }

// Kill kills the pooler, and returns when it is gone.
func (p *PgBouncer) Kill() {
	p.tb.Helper()
	p.check("kill", p.pooler.Kill())
}

// Start starts the killed pooler again on the same port, and returns when it answers.
func (p *PgBouncer) Start() {
	p.tb.Helper()
	p.check("start", p.pooler.Start(p.tb.Context()))
}

// Revive starts the pooler again if it has ended by itself, as a service manager would: PgBouncer 1.18 ends with "bad client state" when a client that
// has sent a cancel request goes away at the wrong moment.
func (p *PgBouncer) Revive() {
	p.tb.Helper()
	if p.pooler.Died() {
		p.Kill()
		p.Start()
	}
}

// check fails the test without ending it, which other goroutines must not do.
func (p *PgBouncer) check(what string, err error) {
	p.tb.Helper()
	if err != nil {
		p.tb.Errorf("testenv: %s the private PgBouncer: %v", what, err)
	}
}

// PgRepack returns the program that rewrites tables of the shared PostgreSQL, or of a private one.
func PgRepack(tb testing.TB) string {
	tb.Helper()
	skipShort(tb)
	path, err := provision.Host{}.PgRepack(tb.Context())
	if err != nil {
		missing(tb, "%v", err)
	}
	return path
}
