package interleave_test

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib" // pgx

	"github.com/outriderhq/outrider/adapters"
)

// scenario is a few sessions that meet.
type scenario struct {
	name  string
	setup func(w *world) error // before each run; its statements are no steps
	roles []role
	brisk string               // session whose statements never wait for a lock
	ends  func(w *world) error // what holds when all sessions are over
	drain func(w *world) error // delivers what is left; nil: nothing is, and no row is followed
}

// role is what one session does.
type role struct {
	session string
	cuts    int // how many of its steps may lose their connection
	run     call
}

// mutant is a change of statements on their way to the server.
type mutant struct {
	name, by, find, replace string       // by: the scenario that kills it
	within                  string       // only statements that contain it are changed
	met                     atomic.Int64 // statements that were changed
}

// world is a database with the sessions that use it.
type world struct {
	ctx     context.Context
	server  string
	sql     *sql.DB // no session
	db      database
	clean   []string     // statements before a run
	fresh   func() error // what is new in a run besides
	closers []func() error
	closing chan struct{} // closed when no run goes on: gates are open
	mutant  *mutant
	changed chan struct{}

	relays   map[string]*relay
	conns    map[string]*sql.Conn  // with which sessions run SQL
	start    adapters.Cursor       // of a new lane
	group    string                // of all rows; empty: the first letter of their ids
	put      func(id string) error // commits a row
	insert   string                // statement that publishes a row, of its id and its group
	endLease string                // statement that ends the lease of an instance

	mu       sync.Mutex
	sessions []*session
	facts
}

// newWorld opens sessions on a database.
func newWorld(t *testing.T, url string, m *mutant) *world {
	t.Helper()
	db, err := openSQL(url)
	must(t, err)
	w := &world{ctx: context.Background(), server: url, sql: db, db: mariadb{db}, mutant: m, changed: make(chan struct{}, 1), closing: make(chan struct{}),
		relays: map[string]*relay{}, conns: map[string]*sql.Conn{}, fresh: func() error { return nil }}
	if strings.HasPrefix(url, "postgres") {
		w.db = postgres{db}
	}
	w.put = func(id string) error { return w.exec(drainer, w.row(id)) }
	t.Cleanup(w.close)
	for _, name := range []string{relayA, relayB, publisher, another, operator, drainer} {
		_, err := w.newSession(name)
		must(t, err)
		w.relays[name] = &relay{w: w, name: name}
	}
	return w
}

// openSQL opens a database by its URL.
func openSQL(url string) (*sql.DB, error) {
	if strings.HasPrefix(url, "postgres") {
		return sql.Open("pgx", url)
	}
	cfg, err := mariadbConfig(url)
	if err != nil {
		return nil, err
	}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}

// close ends all sessions.
func (w *world) close() {
	close(w.closing)
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if _, _, moving := w.moving(); !moving {
			break
		}
	}
	for _, f := range w.closers {
		_ = f() // the server ends what is left
	}
	for _, s := range w.sessions {
		s.close()
	}
	_ = w.sql.Close()
}

// exec runs SQL in a session, over a connection that it keeps.
func (w *world) exec(name string, statements ...string) error {
	w.mu.Lock()
	conn := w.conns[name]
	w.mu.Unlock()
	if conn == nil {
		db, err := openSQL(w.session(name).url)
		if err != nil {
			return err
		}
		if conn, err = db.Conn(w.ctx); err != nil {
			return err
		}
		if _, ok := w.db.(postgres); ok && name != publisher && name != another { // applications have the database's isolation level
			if _, err = conn.ExecContext(w.ctx, "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED"); err != nil {
				return err
			}
		}
		w.mu.Lock()
		w.conns[name], w.closers = conn, append(w.closers, db.Close)
		w.mu.Unlock()
	}
	for _, statement := range statements {
		if _, err := conn.ExecContext(w.ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

// row is the statement that publishes a row.
func (w *world) row(id string) string { return fmt.Sprintf(w.insert, id, w.groupOf(id)) }

// groupOf is the group of a row.
func (w *world) groupOf(id string) string { return cmp.Or(w.group, id[:1]) }

// count counts rows, of a table or what else stands after FROM.
func (w *world) count(from string) (n int, err error) {
	err = w.sql.QueryRow("SELECT count(*) FROM " + from).Scan(&n)
	return n, err
}

// want checks such a count.
func (w *world) want(what string, want int, from string) error {
	got, err := w.count(from)
	if err == nil && got != want {
		err = fmt.Errorf("%s: got %d, want %d", what, got, want)
	}
	return err
}

// wants is an end of which a count is known.
func wants(what string, want int, from string) func(w *world) error {
	return func(w *world) error { return w.want(what, want, from) }
}

// all are several ends.
func all(ends ...func(w *world) error) func(w *world) error {
	return func(w *world) (err error) {
		for _, end := range ends {
			err = errors.Join(err, end(w))
		}
		return err
	}
}

// signal has the scheduler look again.
func (w *world) signal() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// moving counts the sessions that run, and lists the connections that have a statement at the server.
func (w *world) moving() (busy int, pids []int64, moving bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.sessions {
		switch s.is {
		case running:
			busy++
		case sent:
			pids = append(pids, s.pid)
		case atGate, over:
		}
	}
	return busy, pids, busy > 0 || len(pids) > 0
}

// waits reports whether the only statement that is at the server is a session's.
func (w *world) waits(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	found := false
	for _, s := range w.sessions {
		if s.is == sent && s.name != name {
			return false
		}
		found = found || s.is == sent
	}
	return found
}

// describe says where the sessions are.
func (w *world) describe() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var b strings.Builder
	for _, s := range w.sessions {
		fmt.Fprintf(&b, "%s: %s %s\n", s.name, [...]string{"runs", "at its gate", "at the server", "is over"}[s.is], short(s.next.text))
	}
	return b.String()
}

// session returns one by its name.
func (w *world) session(name string) *session {
	return w.sessions[slices.IndexFunc(w.sessions, func(s *session) bool { return s.name == name })]
}

// begin begins a run from a clean state.
func (w *world) begin(sc *scenario) error {
	w.facts = newFacts()
	for _, statement := range w.clean {
		if _, err := w.sql.Exec(statement); err != nil {
			return err
		}
	}
	for _, f := range []func() error{w.fresh, func() error { return sc.setup(w) }} {
		if err := f(); err != nil {
			return fmt.Errorf("set up: %w", err)
		}
	}
	for _, s := range w.sessions {
		s.cuts, s.steps, s.err = 0, 0, nil
	}
	for _, role := range sc.roles {
		s := w.session(role.session)
		s.cuts = role.cuts
		s.start(func() error { return role.run(w.relays[role.session]) })
	}
	return nil
}
