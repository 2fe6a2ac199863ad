package pg

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/internal/testenv"
)

// session is a program with an open transaction.
type session struct {
	t    *testing.T
	conn *pgx.Conn
}

func newSession(t *testing.T, url, application string) *session {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { Close(conn) })
	s := &session{t, conn}
	s.exec("SET application_name = '" + application + "'; BEGIN; SELECT 'secret', 7")
	return s
}

func (s *session) exec(sql string) {
	s.t.Helper()
	if _, err := s.conn.Exec(s.t.Context(), sql); err != nil {
		s.t.Fatal(err)
	}
}

// openPool is a pool of a database whose applications named nightly-report have transactions that count as long.
func openPool(t *testing.T, url string, adjust func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	pc, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	pc.ConnConfig.RuntimeParams["application_name"] = "our-nightly-report"
	adjust(pc)
	pool, err := pgxpool.NewWithConfig(t.Context(), pc)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func listed(t *testing.T, pool *pgxpool.Pool) []adapters.OpenTransaction {
	t.Helper()
	open, err := OpenTransactions(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	return open
}

// The very transaction that was shown is ended: not a later one of its session, and none of Outrider's.
func TestEndTransaction(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t)
	testenv.AgeTransactions(t, url)
	pool := openPool(t, url, func(*pgxpool.Config) {})
	end := func(id string) bool {
		t.Helper()
		ended, err := EndTransaction(t.Context(), pool, id)
		if err != nil {
			t.Fatal(err)
		}
		return ended
	}

	own, named := newSession(t, url, "outrider-nightly-report"), newSession(t, url, "our-nightly-report")
	if open := listed(t, pool); len(open) != 0 {
		t.Errorf("Outrider's own transactions are listed: %+v", open)
	}
	findings := ExamineOpen(t.Context(), pool)
	for _, f := range findings {
		if f.Level != adapters.LevelWarning || f.Transaction != "" {
			t.Errorf("of our own transaction the finding is %+v", f)
		}
	}
	if len(findings) != 2 {
		t.Errorf("%d findings of two of our own transactions", len(findings))
	}

	report := newSession(t, url, "nightly-report")
	first := listed(t, pool)
	if len(first) != 1 || first[0].Application != "nightly-report" || first[0].State != "idle in transaction" || first[0].Open.Minutes() < 6 {
		t.Fatalf("listed are %+v", first)
	}
	if first[0].Statement != "SET application_name = '***'; BEGIN; SELECT '***', 7" {
		t.Errorf("the statement is shown as %q", first[0].Statement)
	}
	report.exec("COMMIT; BEGIN; SELECT 1")
	if end(first[0].ID) {
		t.Error("a later transaction of the session was ended")
	}
	report.exec("SELECT 1")
	for _, id := range []string{"", "0", "x", "1-2-3", "' OR true --"} {
		if end(id) {
			t.Errorf("%q ended something", id)
		}
	}
	second := listed(t, pool)
	if len(second) != 1 || second[0].ID == first[0].ID || !end(second[0].ID) {
		t.Fatalf("the second transaction is not ended: %+v", second)
	}
	if _, err := report.conn.Exec(t.Context(), "SELECT 1"); !FailedWith(err, "57P01") {
		t.Errorf("its session is told %v", err)
	}
	if end(second[0].ID) {
		t.Error("it was ended twice")
	}
	for _, s := range []*session{own, named} {
		id := ""
		if err := s.conn.QueryRow(t.Context(), "SELECT "+transactionID+" FROM pg_stat_activity a WHERE pid = pg_backend_pid()").Scan(&id); err != nil || end(id) {
			t.Errorf("a transaction of Outrider's was ended, or %v", err)
		}
	}
}

// A role that may see sessions of others and not end them is told what to grant.
func TestEndTransactionNeedsAGrant(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t)
	testenv.AgeTransactions(t, url)
	admin := openPool(t, url, func(*pgxpool.Config) {})
	var role, program string
	err := admin.QueryRow(t.Context(), `SELECT 'relay_' || current_database(), 'program_' || current_database()`).Scan(&role, &program)
	if err != nil {
		t.Fatal(err)
	}
	exec := func(sql string) {
		t.Helper()
		if _, err := admin.Exec(context.WithoutCancel(t.Context()), sql); err != nil {
			t.Fatal(err)
		}
	}
	exec("CREATE ROLE " + role + "; GRANT pg_read_all_stats TO " + role + "; CREATE ROLE " + program + " LOGIN")
	t.Cleanup(func() { exec("DROP ROLE " + role + ", " + program) })
	relay := openPool(t, url, func(pc *pgxpool.Config) {
		pc.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, "SET ROLE "+role)
			return err
		}
	})
	t.Cleanup(relay.Close)
	newSession(t, url, "nightly-report")
	id := listed(t, relay)[0].ID
	if _, err := EndTransaction(t.Context(), relay, id); err == nil || !strings.Contains(err.Error(), "superuser run SELECT pg_terminate_backend(") || !FailedWith(err, InsufficientPrivilege) {
		t.Errorf("of a superuser's transaction it is told %v", err)
	}
	other := newSession(t, strings.Replace(url, "postgres@", program+"@", 1), "other-nightly-report")
	for _, open := range listed(t, relay) {
		if open.Application != "other-nightly-report" {
			continue
		}
		if _, err := EndTransaction(t.Context(), relay, open.ID); err == nil || !strings.Contains(err.Error(), "GRANT pg_signal_backend") {
			t.Errorf("without the right it is told %v", err)
		}
		exec("GRANT pg_signal_backend TO " + role)
		if ended, err := EndTransaction(t.Context(), relay, open.ID); !ended || err != nil {
			t.Errorf("with the right: %v, %v", ended, err)
		}
	}
	if _, err := other.conn.Exec(t.Context(), "SELECT 1"); !FailedWith(err, "57P01") {
		t.Errorf("its session is told %v", err)
	}
}

func TestStatementsAreMasked(t *testing.T) {
	t.Parallel()
	for statement, want := range map[string]string{
		"UPDATE a\n\tSET b = 'it''s', c = 7":       "UPDATE a SET b = '***''***', c = 7",
		`SELECT E'it\'s secret', e'x', 'C:\', "d"`: `SELECT '***', '***', '***', "d"`,
		"SELECT $1, $t$a$$b$t$, 1":                 "SELECT $1, '***'",
		"SELECT 'cut here":                         "SELECT '***'",
		"SELECT $x$cut here":                       "SELECT '***'",
		strings.Repeat("ü", 300):                   strings.Repeat("ü", 200) + "…",
	} {
		if got := masked(statement); got != want {
			t.Errorf("%q is shown as %q, want %q", statement, got, want)
		}
	}
}
