package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"
)

// asProgram makes the test binary behave as outrider, so that signals can be
// tested on a process of its own.
const asProgram = "OUTRIDER_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(execute(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	goleak.VerifyTestMain(m)
}

// result is what a call of the program left.
type result struct {
	code     int
	out, err string
}

func (r result) String() string {
	return fmt.Sprintf("exit %d\nstdout:\n%s\nstderr:\n%s", r.code, r.out, r.err)
}

// call runs a command in this process.
func call(ctx context.Context, stdin string, args ...string) result {
	var stdout, stderr bytes.Buffer
	code := execute(ctx, args, strings.NewReader(stdin), &stdout, &stderr)
	return result{code, stdout.String(), stderr.String()}
}

// site is a folder with a configuration and the database that it names.
type site struct {
	t      *testing.T
	config string
	db     string
}

// newSite writes a configuration with one SQLite source, app, and the given
// YAML for destinations and routes.
func newSite(t *testing.T, rest string) *site {
	t.Helper()
	dir := t.TempDir()
	s := &site{t: t, config: filepath.Join(dir, "outrider.yaml"), db: filepath.Join(dir, "app.db")}
	s.write(fmt.Sprintf("admin: {listen: off}\nsources:\n  app: {type: sqlite, path: %q}\n%s", s.db, rest))
	return s
}

// runSQL runs a statement on a PostgreSQL server.
func runSQL(t *testing.T, url, query string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }() // the statement is what matters
	if _, err := conn.Exec(t.Context(), query); err != nil {
		t.Fatal(err)
	}
}

// createRole makes a login for the length of the test. The name is as SQL has it, quoted
// where that is needed.
func createRole(t *testing.T, address, name string) {
	t.Helper()
	runSQL(t, address, "CREATE ROLE "+name+" LOGIN")
	t.Cleanup(func() {
		conn, err := pgx.Connect(context.Background(), address)
		if err != nil {
			t.Fatal(err)
		}
		_, err = conn.Exec(context.Background(), "DROP OWNED BY "+name+"; DROP ROLE "+name)
		if err := errors.Join(err, conn.Close(context.Background())); err != nil {
			t.Error(err)
		}
	})
}

// asRole is the address with another user; empty: the same one.
func asRole(t *testing.T, address, role string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	if role != "" {
		u.User = url.User(role)
	}
	return u.String()
}

// Commands about the whole configuration take its file as an argument too.
func TestTheConfigurationIsAnArgument(t *testing.T) {
	t.Parallel()
	s := newSite(t, toDiscard)
	for _, args := range [][]string{{"validate"}, {"init"}, {"doctor"}} {
		if got := call(t.Context(), "", append(args, s.config)...); got.code != exitOK {
			t.Errorf("%v: %v", args, got)
		}
	}
	stopped, cancel := context.WithCancel(t.Context())
	cancel() // it starts and drains at once
	if got := call(stopped, "", "run", s.config); got.code != exitOK {
		t.Errorf("run: %v", got)
	}
	for text, args := range map[string][]string{
		"named twice":                   {"validate", s.config, "--config", s.config},
		"takes one configuration file":  {"init", s.config, "other.yaml"},
		"file none.yaml does not exist": {"run", "none.yaml"},
	} {
		if got := call(t.Context(), "", args...); got.code != exitWrong || !strings.Contains(got.err, text) {
			t.Errorf("%v: %v, want %q", args, got, text)
		}
	}
}

const toDiscard = `destinations:
  nowhere: {type: discard}
routes:
  orders: {from: app, to: nowhere}
`

func (s *site) write(text string) {
	s.t.Helper()
	if err := os.WriteFile(s.config, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// call runs a command with the site's configuration.
func (s *site) call(args ...string) result {
	s.t.Helper()
	return call(s.t.Context(), "", append(args, "--config", s.config)...)
}

// must is call for what has to succeed; it returns what was printed.
func (s *site) must(args ...string) string {
	s.t.Helper()
	r := s.call(args...)
	if r.code != exitOK {
		s.t.Fatalf("outrider %s: %v", strings.Join(args, " "), r)
	}
	return r.out
}
