package statestore

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"github.com/pressly/goose/v3"
	lib "modernc.org/sqlite/lib"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/state"
	"github.com/outriderhq/outrider/adapters/sqlite/internal/lite"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// versionTable is where goose keeps what it has applied; a name of our
// own, so that it does not meet an application's goose.
const versionTable = "outrider_migrations"

// Config says where a [Store] keeps its tables.
type Config struct {
	Path string // of the database, as package sqlite opens it; created when missing
}

// Store keeps cursors and parked messages in a SQLite file. It implements
// [adapters.StateStore] for one running instance: Join takes a lock on a file
// next to the database (PATH.outrider-lock), which the kernel frees when the
// process ends; a second instance gets [adapters.ErrSecondInstance] with the
// first one's process id and host. On systems without flock the first one's
// lease refuses the second. Databases in memory are locked within the
// process. Commands of operators need no lock and run while the instance runs.
//
// The clock of leases and of parked messages is that of this host.
type Store struct {
	*state.Operators
	db   *sql.DB
	path string
}

var _ adapters.OperatorStore = (*Store)(nil)

// New opens the store. It creates no tables, see [Store.Migrate].
func New(ctx context.Context, cfg Config) (*Store, error) {
	db, err := lite.Open(cfg.Path)
	if err != nil {
		return nil, err
	}
	if err := db.PingContext(ctx); err != nil {
		_ = db.Close() // it never opened; that error is returned
		return nil, fmt.Errorf("sqlite state: open %s (the directory must exist and be writable): %w", cfg.Path, err)
	}
	s := &Store{db: db, path: cfg.Path}
	s.Operators = state.NewOperators(s.database())
	return s, nil
}

// Migrate creates or upgrades the tables and puts the file into WAL mode.
func (s *Store) Migrate(ctx context.Context) error {
	migrating.Lock()
	defer migrating.Unlock()
	if _, _, err := s.StateVersion(ctx); err != nil {
		return err
	}
	if err := lite.UseWAL(ctx, s.db); err != nil {
		return s.wrap("migrate", err)
	}
	provider, err := s.migrations()
	if err != nil {
		return s.wrap("migrate", err)
	}
	// Another process may have migrated between our look and our write: then
	// the write fails, and the next look finds nothing to do.
	for range lite.BusyRetries {
		if _, err = provider.Up(ctx); err == nil || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return s.wrap("migrate", err)
	}
	return nil
}

// version is that of the tables; 0: there are none.
func (s *Store) version(ctx context.Context) (version int64, err error) {
	var tables int
	err = s.db.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = ?`, versionTable).Scan(&tables)
	if err == nil && tables > 0 {
		err = s.db.QueryRowContext(ctx, `SELECT coalesce(max(version_id), 0) FROM `+versionTable+` WHERE is_applied`).Scan(&version)
	}
	return version, err
}

// migrations lead from each version of the tables to the next.
func (s *Store) migrations() (*goose.Provider, error) {
	files, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		return nil, err
	}
	return goose.NewProvider(goose.DialectSQLite3, s.db, files,
		goose.WithTableName(versionTable),
		goose.WithDisableGlobalRegistry(true)) // without the migrations that the application has registered
}

// migrating lets the stores of one process take turns.
var migrating sync.Mutex

// session is the lock that shows that the instance lives. It implements [state.Session].
type session struct {
	*Store
	instance string
	lock     instanceLock
}

// openSession takes the lock and announces the instance.
func (s *Store) openSession(ctx context.Context, instance string, lease time.Duration, _ []int64) (state.Session, map[adapters.LaneRef]adapters.LaneMark, error) {
	lock, err := lockInstance(s.path, instance)
	if err != nil {
		return nil, nil, s.wrap(fmt.Sprintf("join as %q", instance), err)
	}
	own := &session{s, instance, lock}
	lanes, err := own.Renew(ctx, lease)
	return own, lanes, s.wrap(fmt.Sprintf("join as %q", instance), err)
}

// Renew implements [state.Session].
func (s *session) Renew(ctx context.Context, lease time.Duration) (map[adapters.LaneRef]adapters.LaneMark, error) {
	if err := s.transact(ctx, func(tx *sql.Tx) error { return announce(ctx, tx, s.instance, lease) }); err != nil {
		return nil, err
	}
	return state.OwnedLanes(ctx, s.db, s.instance)
}

// Lost implements [state.Session]: nothing but the end of the process takes the lock away.
func (*session) Lost(error) bool { return false }

// ID implements [state.Session].
func (*session) ID() int64 { return 0 }

// Close implements [state.Session].
func (s *session) Close(bool) { s.lock.release() }

// announce writes the instance's row. This process has the lock, so the other rows are
// of dead instances, unless the lock does not show that.
func announce(ctx context.Context, tx *sql.Tx, instance string, lease time.Duration) error {
	now := time.Now()
	if !lockShowsLife {
		var other string
		err := tx.QueryRowContext(ctx, `SELECT coalesce(max(id), '') FROM outrider_instance WHERE id <> ? AND lease_until > ?`,
			instance, now.UnixMicro()).Scan(&other)
		if err != nil {
			return err
		}
		if other != "" {
			return refusal("instance " + other)
		}
	}
	if _, err := tx.ExecContext(ctx, `DELETE FROM outrider_instance WHERE id <> ?`, instance); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO outrider_instance (id, lease_until, joined_at, renewed_at) VALUES (?1, ?2, ?3, ?3)
ON CONFLICT (id) DO UPDATE SET lease_until = excluded.lease_until, renewed_at = excluded.renewed_at`,
		instance, now.Add(lease).UnixMicro(), now.UnixMicro())
	return err
}

// Close releases the connections and the lock: without Leave before
// it, the next instance takes the lanes as after a crash.
func (s *Store) Close() error {
	s.CloseSession()
	return s.db.Close()
}

// transact runs f in one transaction that holds the write lock from its
// beginning, and again as a whole when another program held it for too long. It joins the one that the context carries.
func (s *Store) transact(ctx context.Context, f func(tx *sql.Tx) error) error {
	if tx := lite.Running(ctx, s.path); tx != nil {
		return f(tx)
	}
	return lite.Transact(ctx, s.db, f)
}

// joining is the store's database, or the transaction of it that a context carries: what operators change in a queue of the same file
// is recorded in the transaction that changes it.
type joining struct{ *Store }

func (j joining) querier(ctx context.Context) state.Querier {
	if tx := lite.Running(ctx, j.path); tx != nil {
		return tx
	}
	return j.db
}

// QueryContext implements [state.Querier].
func (j joining) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return j.querier(ctx).QueryContext(ctx, query, args...)
}

// ExecContext implements [state.Querier].
func (j joining) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	return j.querier(ctx).ExecContext(ctx, query, args...)
}

// wrap says what failed and where.
func (s *Store) wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	if c := lite.Code(err); c == lib.SQLITE_FULL || c == lib.SQLITE_IOERR {
		return fmt.Errorf("sqlite state %s: %s: %w; free space on the disk; the next attempt then succeeds", s.path, what, err)
	}
	return fmt.Errorf("sqlite state %s: %s: %w", s.path, what, err)
}
