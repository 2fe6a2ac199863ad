package statestore

import (
	"context"
	"io/fs"
	"regexp"
	"strings"
	"sync"
	"testing/fstest"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/pressly/goose/v3/database"

	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
)

// Statements name the state tables without a schema, and {schema} where they need
// its name as text. The store's connections put the schema in, so that no statement
// can be sent without it.

// stateTable is a name of one of the tables; those of their indexes have one more
// word. A name in quotes is none: a schema may have any name. stateIndex matches the names of
// indexes without their table.
var (
	stateTable = regexp.MustCompile(`"[^"]*"|\boutrider_[a-z]+\b`)
	stateIndex = regexp.MustCompile(`(?i)\b((?:DROP|ALTER)\s+INDEX\s+(?:IF\s+EXISTS\s+)?)(outrider_\w+)`)
)

// stateTexts bounds how many statements are remembered. Nearly all are constants;
// those about parked messages differ by what the filter names.
const stateTexts = 512

// stateSchema is the schema of the state tables.
type stateSchema struct {
	name string // empty in printed statements: whichever the search path leads to

	mu    sync.RWMutex
	texts map[string]string // statements, as they were written
}

func newStateSchema(name string) *stateSchema {
	return &stateSchema{name: name, texts: map[string]string{}}
}

// in returns a statement with the schema put in.
func (s *stateSchema) in(sql string) string {
	s.mu.RLock()
	text, ok := s.texts[sql]
	s.mu.RUnlock()
	if ok {
		return text
	}
	text = s.write(sql)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.texts) < stateTexts {
		s.texts[sql] = text
	}
	return text
}

func (s *stateSchema) write(sql string) string {
	if s.name == "" {
		return sql
	}
	prefix := pgx.Identifier{s.name}.Sanitize() + "."
	sql = stateIndex.ReplaceAllString(sql, "${1}"+strings.ReplaceAll(prefix, "$", "$$")+"${2}")
	sql = stateTable.ReplaceAllStringFunc(sql, func(name string) string {
		if name[0] == '"' {
			return name
		}
		return prefix + name
	})
	return strings.ReplaceAll(sql, "{schema}", pg.Literal(s.name)+"::pg_catalog.text")
}

// migrations are the files of migrations with the schema put in.
func (s *stateSchema) migrations() (fs.FS, error) {
	out := fstest.MapFS{}
	names, err := fs.Glob(stateMigrations, "migrations/*.sql")
	for _, name := range names {
		text, readErr := stateMigrations.ReadFile(name)
		if readErr != nil {
			return nil, readErr
		}
		out[strings.TrimPrefix(name, "migrations/")] = &fstest.MapFile{Data: []byte(s.write(string(text)))}
	}
	return out, err
}

// versions is where goose keeps what it has applied.
func (s *stateSchema) versions() (database.Store, error) {
	table := stateVersionTable
	if s.name != "" {
		table = pgx.Identifier{s.name, table}.Sanitize()
	}
	store, err := database.NewStore(database.DialectPostgres, table)
	return versionStore{store, table}, err
}

// versionStore is goose's own, which cannot find a table by a quoted name.
type versionStore struct {
	database.Store
	table string
}

var _ database.StoreExtender = versionStore{}

// TableExists implements [database.StoreExtender].
func (s versionStore) TableExists(ctx context.Context, db database.DBTxConn) (exists bool, err error) {
	err = db.QueryRowContext(ctx, "SELECT to_regclass($1) IS NOT NULL", s.table).Scan(&exists)
	return exists, err
}

// statePool is a pool whose statements are in the schema.
type statePool struct {
	*pgxpool.Pool
	schema *stateSchema
}

// Query is that of the pool.
func (p statePool) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return p.Pool.Query(ctx, p.schema.in(sql), args...)
}

// QueryRow is that of the pool.
func (p statePool) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return p.Pool.QueryRow(ctx, p.schema.in(sql), args...)
}

// Exec is that of the pool.
func (p statePool) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return p.Pool.Exec(ctx, p.schema.in(sql), args...)
}

// Begin is that of the pool.
func (p statePool) Begin(ctx context.Context) (pgx.Tx, error) {
	tx, err := p.Pool.Begin(ctx)
	return stateTx{tx, p.schema}, err
}

// SendBatch is that of the pool: without a transaction around it the batch is one by itself.
func (p statePool) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	for _, q := range b.QueuedQueries {
		q.SQL = p.schema.in(q.SQL)
	}
	return p.Pool.SendBatch(ctx, b)
}

// stateTx is a transaction whose statements are in the schema.
type stateTx struct {
	pgx.Tx
	schema *stateSchema
}

// Query is that of the transaction.
func (t stateTx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return t.Tx.Query(ctx, t.schema.in(sql), args...)
}

// QueryRow is that of the transaction.
func (t stateTx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return t.Tx.QueryRow(ctx, t.schema.in(sql), args...)
}

// Exec is that of the transaction.
func (t stateTx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return t.Tx.Exec(ctx, t.schema.in(sql), args...)
}

// SendBatch is that of the transaction.
func (t stateTx) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	for _, q := range b.QueuedQueries {
		q.SQL = t.schema.in(q.SQL)
	}
	return t.Tx.SendBatch(ctx, b)
}
