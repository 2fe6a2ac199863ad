package statestore

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/state"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
)

//go:embed migrations/*.sql
var stateMigrations embed.FS

const (
	// stateVersionTable is where goose keeps what it has applied; a name of
	// its own, so that it does not meet an application's goose.
	stateVersionTable = "outrider_migrations"

	// stateMigrationLock is the advisory lock of a running migration.
	stateMigrationLock int64 = 0x6f75747269_01

	// stateConns bounds the pool: one settles, one acquires, two look up and record
	// events, and operators and metrics look on. The connection that shows our
	// life is not among them.
	stateConns = 6
)

// Config says where a [Store] keeps its tables.
type Config struct {
	// URL of the database, postgres://... It must lead to a primary, and not
	// through a pooler in transaction mode: ownership of lanes is shown by a
	// session's advisory lock.
	URL string

	// TLS says how connections by URL are encrypted. The zero value is safe.
	TLS TLS

	// Config replaces URL where more is to be set, such as a dial function. It is
	// the caller's: [TLS] does not change it. It is made by pgxpool.ParseConfig; Outrider sets the pool's size.
	Config *pgxpool.Config

	// Schema that holds the tables; created by Migrate when it is missing.
	// Empty: the schema of the role's search_path that has the tables or, where
	// none has, the first, usually public.
	Schema string

	// Logger; nil: slog.Default().
	Logger *slog.Logger

	// Tracer sees every statement; optional.
	Tracer pgx.QueryTracer
}

// Store keeps cursors, ownership of lanes and parked messages in PostgreSQL. It
// implements [adapters.StateStore]. The database need not be the one that the
// outbox is in.
//
// An instance that joined holds one connection of its own with a session
// advisory lock. When its process dies the server drops the lock with the
// connection, and others take its lanes without waiting for the lease.
type Store struct {
	*state.Operators
	pool   statePool
	create bool // Migrate makes the schema when it is missing
	log    *slog.Logger

	deliveries pg.Deliveries
	aside      aside

	places   sync.Map                     // names of tables of progress as they are given, to those with their schemas
	progress atomic.Pointer[progressBook] // nil: no route has a row in a table of progress
}

var _ adapters.OperatorStore = (*Store)(nil)

// New opens the store. It connects to verify the URL; it creates no
// tables, see [Store.Migrate].
func New(ctx context.Context, cfg Config) (*Store, error) {
	c := pg.Connection{URL: cfg.URL, TLS: cfg.TLS, Config: cfg.Config, Tracer: cfg.Tracer, Application: "outrider-state", MaxConns: stateConns}
	pool, err := c.Open(ctx)
	if err != nil {
		return nil, fmt.Errorf("state store: %w", err)
	}
	schema, err := locateState(ctx, pool, cfg.Schema)
	if err != nil {
		pool.Close()
		return nil, err
	}
	log := cfg.Logger
	if log == nil {
		log = slog.Default()
	}
	s := &Store{pool: statePool{pool, newStateSchema(schema)}, create: cfg.Schema != "", log: log}
	s.Operators = state.NewOperators(s.database())
	return s, nil
}

// locateState connects, and returns the schema of the state tables.
func locateState(ctx context.Context, pool *pgxpool.Pool, schema string) (string, error) {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return "", stateError("connect", err)
	}
	defer conn.Release()
	if schema == "" {
		table, _, err := pg.Locate(ctx, conn.Conn(), pgx.Identifier{stateVersionTable})
		if err != nil {
			return "", stateError("look for the state tables", err)
		}
		schema = table[0]
	}
	return schema, checkOwners(ctx, conn, schema)
}

// checkOwners refuses to let a superuser write to state tables that a role without
// such rights has made: what that role has put there, triggers for example, would
// run with them. The owners of the database and of the schema are trusted.
func checkOwners(ctx context.Context, q pg.Querier, schema string) error {
	const sql = `
SELECT o.kind, o.name, c.oid::regclass::text, r.rolname, current_user
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
CROSS JOIN LATERAL (
    SELECT 'TABLE' AS kind, c.oid::regclass::text AS name, c.relowner AS owner
    UNION ALL
    SELECT 'FUNCTION', p.oid::regprocedure::text, p.proowner FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid WHERE t.tgrelid = c.oid AND NOT t.tgisinternal
) o JOIN pg_roles r ON r.oid = o.owner
WHERE current_setting('is_superuser') = 'on' AND n.nspname = $1 AND c.relname LIKE 'outrider\_%'
  AND (c.relname = $2 OR c.relname = ANY ($3)) AND NOT r.rolsuper
  AND r.oid <> n.nspowner AND r.oid <> (SELECT d.datdba FROM pg_database d WHERE d.datname = current_database())
ORDER BY o.kind DESC, o.name LIMIT 1`
	var kind, name, table, owner, role string
	err := q.QueryRow(ctx, sql, schema, stateVersionTable, stateTables).Scan(&kind, &name, &table, &owner, &role)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return stateError("look for the state tables", err)
	}
	what, ours := "table "+name, "the table"
	if kind == "FUNCTION" {
		what, ours = "function "+name+" of a trigger of table "+table, "the function"
	}
	return fmt.Errorf("state store: %s belongs to role %s, and whatever triggers run would have the rights of the superuser %s: "+
		"connect as a role of its own (`outrider init --print` shows the grants that it needs), or, if %s is yours: ALTER %s %s OWNER TO %s",
		what, pgx.Identifier{owner}.Sanitize(), role, ours, kind, name, pgx.Identifier{role}.Sanitize())
}

// Migrate creates or upgrades the tables. Instances that start together take
// turns; the later ones find nothing to do. A role that may not do it needs no right
// to where there is nothing to do; otherwise the error says who can.
func (s *Store) Migrate(ctx context.Context) error {
	version, newest, err := s.StateVersion(ctx)
	if err != nil || version >= newest {
		return err
	}
	if version == 0 {
		s.warnOfOthers(ctx)
	}
	err = s.createSchema(ctx)
	if err == nil {
		err = s.migrate(ctx)
	}
	if pg.FailedWith(err, pg.InsufficientPrivilege) {
		return fmt.Errorf("state store: migrate: %w", s.mayNotMigrate(ctx, err))
	}
	return stateError("migrate", err)
}

func (s *Store) migrate(ctx context.Context) error {
	files, err := s.pool.schema.migrations()
	if err != nil {
		return err
	}
	versions, err := s.pool.schema.versions()
	if err != nil {
		return err
	}
	locker, err := lock.NewPostgresSessionLocker(
		lock.WithLockID(stateMigrationLock), lock.WithLockTimeout(1, 300), lock.WithUnlockTimeout(1, 10))
	if err != nil {
		return err
	}
	db := stdlib.OpenDBFromPool(s.pool.Pool)
	defer func() { _ = db.Close() }() // a view of the pool; the pool stays
	provider, err := goose.NewProvider(goose.DialectCustom, db, files,
		goose.WithStore(versions), goose.WithSessionLocker(state.MigrationLock{SessionLocker: locker}),
		goose.WithDisableGlobalRegistry(true)) // without the migrations that the application has registered
	if err != nil {
		return err
	}
	_, err = provider.Up(ctx)
	return err
}

// createSchema makes the schema unless it exists. The lock is there because
// two CREATE SCHEMA IF NOT EXISTS at once collide; asking first lets a role
// without the privilege to create schemas use one that was made for it.
func (s *Store) createSchema(ctx context.Context) error {
	if !s.create {
		return nil
	}
	schema := s.pool.schema.name
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, stateMigrationLock); err != nil {
			return err
		}
		var exists bool
		err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)`, schema).Scan(&exists)
		if err != nil || exists {
			return err
		}
		_, err = tx.Exec(ctx, `CREATE SCHEMA `+pgx.Identifier{schema}.Sanitize())
		return err
	})
}

// Close releases the connections, the one that shows our life too: without
// [Store.Leave] before it, others take the lanes as after a crash.
func (s *Store) Close() error {
	s.CloseSession()
	s.deliveries.Close()
	s.pool.Close()
	return nil
}

// stateError says what failed and, where one follows from the server's code,
// the fix.
func stateError(what string, err error) error {
	return pg.Describe("state store", what, err, func(refused *pgconn.PgError) string {
		switch refused.Code {
		case pg.UndefinedTable:
			return "; the state tables are missing, call Migrate (`outrider run` does)"
		case pg.UndefinedColumn:
			return "; the state tables are of an older version, call Migrate (`outrider run` and `outrider init` do)"
		case pg.InsufficientPrivilege:
			return "; `outrider doctor` names what the role lacks, `outrider init --print` the grants by task"
		case pg.ReadOnlyTransaction:
			return pg.ReadOnlyFix
		}
		return ""
	})
}
