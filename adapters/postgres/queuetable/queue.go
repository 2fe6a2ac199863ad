package queuetable

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
	"github.com/outriderhq/outrider/adapters/postgres/internal/wake"
	"github.com/outriderhq/outrider/adapters/postgres/internal/wire"
)

const (
	// DefaultBatch is the most rows that a claim takes from one table.
	DefaultBatch = 500

	// DefaultTimeout is how long a row may be marked as being processed
	// before it counts as stuck.
	DefaultTimeout = 5 * time.Minute

	// queueConns bounds the pool: one claims, one settles, and there is room
	// for checks and for settles at the same time.
	queueConns = 4
)

// Config says which tables a [Queue] works on.
type Config struct {
	// URL of the database, postgres://... It must lead to a primary, and not
	// through a pooler in transaction mode. A `timezone` parameter sets the
	// session's time zone, which decides what now() is in a timestamp without
	// one: it must be that of other processors on the tables.
	URL string

	// TLS says how connections by URL are encrypted. The zero value is safe.
	TLS TLS

	// Config replaces URL where more is to be set, such as a dial function. It is
	// the caller's: [TLS] does not change it. It is made by pgxpool.ParseConfig; the pool's sizes are ours.
	Config *pgxpool.Config

	// Tables share one layout; at least one. Those of a preset have their usual names in
	// its [Layout].
	Tables []Table

	// Layout of the tables: that of a preset of package layout, or another one.
	Layout Layout

	// Fence says where the epochs of lanes are. Tables with a status for rows that are being processed need none. Tables whose
	// attempts are kept in notes ([layout.Queue.Noted]) need it to be in their database.
	Fence Fence

	// Batch is the most rows that one claim takes from one table. 0:
	// [DefaultBatch].
	Batch int

	// Timeout after which a row that is marked as being processed counts as
	// stuck and may be put back. 0: [DefaultTimeout].
	Timeout time.Duration

	// Wake is how new rows are noticed. Empty: polling.
	Wake Wake

	// Logger; nil: slog.Default().
	Logger *slog.Logger

	// Tracer sees every statement; optional.
	Tracer pgx.QueryTracer

	// MaxRow is the largest payload that is read, in bytes; a row with a larger one
	// is dead. 0: [adapters.DefaultMaxRow].
	MaxRow int64
}

// Queue claims and settles rows of queue tables in PostgreSQL. It implements
// [adapters.Queue].
//
// Its claims are remembered until they are settled, so
// that its own rows neither end a prefix nor are recovered. Claims do not
// outlive it.
type Queue struct {
	adapters.Waker
	pg.Transactions
	waker   *wake.Waker
	pool    *pgxpool.Pool
	tx      pg.Deliveries
	tables  []*queueTable
	batch   atomic.Int64 // see SetBatch
	timeout time.Duration
	log     *slog.Logger
	fence   Fence
	recent  atomic.Int64 // see SkipRecent

	takeAllRows, takeAllRest int // constant, but for tests

	// claiming is held while rows are claimed and while rows are put back: a row
	// that is put back must not be overtaken by a claim that is under way.
	claiming        sync.Mutex
	first           int // the table that is served first, in turn
	decoder         wire.Decoder
	mark            int             // of the last claim
	unknownOutcomes []*unknownClaim // what may have been claimed

	mu     sync.Mutex  // guards what follows, and what the tables say that it does
	lost   []lostClaim // claims that were lost since the last Claim
	tokens int64       // that holds of tables without claims have had
	hot    hotRows
	open   context.Context    // of looks in the background, until Close
	end    context.CancelFunc // of that
	guards sync.WaitGroup     // looks in the background
}

var (
	_ adapters.OperatorQueue = (*Queue)(nil)
	_ adapters.Waker         = (*Queue)(nil)
)

// New returns a queue. It checks the configuration and does not connect:
// [Queue.Check] does.
func New(ctx context.Context, cfg Config) (*Queue, error) {
	if err := validate(&cfg.Layout); err != nil {
		return nil, fmt.Errorf("postgres queue: layout: %w", err)
	}
	if cfg.Layout.Noted() && !cfg.Fence.Here {
		return nil, fmt.Errorf("postgres queue: %w", errNotesElsewhere)
	}
	if err := cfg.Wake.Check(); err != nil {
		return nil, fmt.Errorf("postgres queue: %w", err)
	}
	if len(cfg.Tables) == 0 {
		return nil, errors.New("postgres queue: no table is named")
	}
	if cfg.Batch < 0 || cfg.Timeout < 0 {
		return nil, errors.New("postgres queue: Batch and Timeout must not be negative; 0 is the default")
	}
	q := &Queue{
		timeout: cmp.Or(cfg.Timeout, DefaultTimeout), fence: cfg.Fence,
		log: cmp.Or(cfg.Logger, slog.Default()), takeAllRows: takeAllRows, takeAllRest: takeAllRest,
		decoder: wire.Decoder{MaxRow: cmp.Or(cfg.MaxRow, adapters.DefaultMaxRow)}, mark: rand.IntN(claimMarks), //nolint:gosec // it keeps the marks of processes apart, and is no secret
	}
	q.SetBatch(cfg.Batch)
	for _, table := range cfg.Tables {
		t, err := newQueueTable(table, &cfg.Layout)
		if err != nil {
			return nil, fmt.Errorf("postgres queue: %w", err)
		}
		t.sql.maxRow = q.decoder.MaxRow
		for _, other := range q.tables {
			if other.name == t.name || other.sql.table == t.sql.table {
				return nil, fmt.Errorf("postgres queue: table %s is named twice", t.name)
			}
		}
		q.tables = append(q.tables, t)
	}
	pool, err := newQueuePool(ctx, &cfg)
	if err != nil {
		return nil, fmt.Errorf("postgres queue of table %s: %w", cfg.Tables[0].Name, err)
	}
	q.open, q.end = context.WithCancel(context.WithoutCancel(ctx))
	q.pool, q.waker = pool, wake.New(cfg.Wake, pool, q.log, q.identifiers()...)
	q.Waker, q.Transactions = q.waker, pg.Transactions{Pool: pool}
	return q, nil
}

// SetBatch changes [Config.Batch] of a queue, from the next claim on. 0: [DefaultBatch].
func (q *Queue) SetBatch(rows int) { q.batch.Store(int64(cmp.Or(rows, DefaultBatch))) }

// newQueuePool returns the pool. It does not connect.
func newQueuePool(ctx context.Context, cfg *Config) (*pgxpool.Pool, error) {
	c := pg.Connection{URL: cfg.URL, TLS: cfg.TLS, Config: cfg.Config, Tracer: cfg.Tracer, Application: "outrider-queue", MaxConns: queueConns}
	pc, err := c.PoolConfig()
	if err != nil {
		return nil, err
	}
	connected := pc.AfterConnect
	pc.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		if connected != nil {
			if err := connected(ctx, conn); err != nil {
				return err
			}
		}
		if pg.KeepsSession(conn) == nil { // Check refuses others
			_, err := conn.PgConn().Exec(ctx, queueSettings).ReadAll()
			return err
		}
		return nil
	}
	return pgxpool.NewWithConfig(ctx, pc)
}

// identifiers returns the names of the tables.
func (q *Queue) identifiers() []pgx.Identifier {
	out := make([]pgx.Identifier, len(q.tables))
	for i, t := range q.tables {
		out[i], _ = pg.ParseTable(t.name) // it was parsed before
	}
	return out
}

// Close releases the connections. Rows that are claimed stay marked as being
// processed until a recovery; put them back before.
func (q *Queue) Close() error {
	q.waker.Stop()
	q.tx.Close()
	q.mu.Lock()
	q.end() // no look begins any more
	q.mu.Unlock()
	q.guards.Wait()
	q.pool.Close()
	return nil
}

// table returns a table by its name as configured.
func (q *Queue) table(name string) *queueTable {
	for _, t := range q.tables {
		if t.name == name {
			return t
		}
	}
	return nil
}

// queueSettings pins the plans of a queue's statements: all of them are index
// scans and nested loops, whatever the statistics say, which are stale for a
// table whose interesting part is nearly always empty. Row security must not
// hide rows silently. The time zone is left alone: a timestamp without one
// must come out as it does for the others on the table (docs/flowcatalyst.md).
var queueSettings = `
SET default_transaction_isolation = 'read committed';
SET row_security = off;
SET jit = off;
SET plan_cache_mode = force_generic_plan;
SET max_parallel_workers_per_gather = 0;
SET ` + strings.Join(pinnedPlans, " = off;\nSET ") + ` = off;
`

// pinnedPlans are the ways of the planner that it turns off.
var pinnedPlans = []string{"enable_seqscan", "enable_bitmapscan", "enable_sort", "enable_incremental_sort", "enable_hashjoin", "enable_mergejoin"}

// errNotesElsewhere refuses a table that needs notes without a place for them.
var errNotesElsewhere = errors.New("the table has no columns for attempts, the time of the next one and errors, so they are kept in the " +
	"state store, in the transaction that settles a row: the state store must be in the table's database; remove state.url, or have it name that database")

// Fence says where the epochs of lanes are that settling tables without claims asks for.
type Fence struct {
	// Here: the state store is in the database of the tables.
	Here bool

	// Schema of the state store's tables. Empty: that of the connection's search_path.
	Schema string
}

// of is a table of the state store.
func (f Fence) of(table pgx.Identifier) pgx.Identifier {
	if f.Schema == "" {
		return table
	}
	return pgx.Identifier{f.Schema, table[0]}
}
