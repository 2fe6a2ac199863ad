package testenv

import (
	"cmp"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/outriderhq/outrider/internal/testenv/provision"
	"github.com/outriderhq/outrider/internal/testenv/server"
)

// PostgresPair are two PostgreSQL servers of one test: a primary, and a standby that streams from it.
type PostgresPair struct {
	Primary, Standby *PostgresServer
	tb               testing.TB
}

// StartPostgresPair starts a pair with further settings of both ("synchronous_standby_names = '*'"). The servers are stopped and deleted when the test ends. It needs
// pg_basebackup and pg_rewind.
func StartPostgresPair(tb testing.TB, settings ...string) *PostgresPair {
	tb.Helper()
	skipShort(tb)
	bin, err := provision.Host{}.Postgres(tb.Context())
	if err != nil {
		missing(tb, "%v", err)
	}
	for _, program := range []string{"pg_basebackup", "pg_rewind"} {
		if _, err := os.Stat(filepath.Join(bin, program)); err != nil {
			missing(tb, "no %s beside PostgreSQL: %v", program, err)
		}
	}
	settings = append([]string{"wal_log_hints = on", "wal_keep_size = '512MB'"}, settings...) // of pg_rewind
	p := &PostgresPair{tb: tb}
	p.Primary = startPostgres(tb, server.PostgresOptions{Settings: settings})
	p.Standby = startPostgres(tb, server.PostgresOptions{})
	p.Standby.check("copy the primary to", p.Standby.server.FollowAnew(tb.Context(), p.Primary.server))
	return p
}

// URL leads to the one of both that is the primary, whichever that is.
func (p *PostgresPair) URL() string {
	p.tb.Helper()
	var hosts [2]string
	for i, s := range []*PostgresServer{p.Primary, p.Standby} {
		u, err := url.Parse(s.URL())
		if err != nil {
			p.tb.Fatal(err)
		}
		hosts[i] = u.Host
	}
	return "postgres://postgres@" + hosts[0] + "," + hosts[1] + "/postgres?sslmode=disable&target_session_attrs=read-write"
}

// Fail stops the primary in a mode ("": "immediate", as a crash does; "fast" is a switchover), and promotes the standby.
func (p *PostgresPair) Fail(mode server.StopMode) {
	p.tb.Helper()
	p.Primary.Stop(cmp.Or(mode, server.Immediate))
	p.Standby.check("promote", p.Standby.server.Exec(p.tb.Context(), "SELECT pg_promote()"))
	p.Primary, p.Standby = p.Standby, p.Primary
}

// Rejoin starts the former primary as a standby, by pg_rewind or by a new copy.
func (p *PostgresPair) Rejoin(rewind bool) {
	p.tb.Helper()
	if rewind {
		p.Standby.check("rewind", p.Standby.server.FollowAgain(p.tb.Context(), p.Primary.server))
		return
	}
	p.Standby.check("copy the primary to", p.Standby.server.FollowAnew(p.tb.Context(), p.Primary.server))
}
