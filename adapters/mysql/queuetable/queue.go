package queuetable

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/queue"
	"github.com/outriderhq/outrider/adapters/layout"
	"github.com/outriderhq/outrider/adapters/mysql/internal/my"
)

// Package layout describes queue tables.
type (
	// Layout says what the columns and statuses of queue tables are called.
	Layout = layout.Queue
	// Table is one table of a [Queue].
	Table = layout.Table
)

const (
	// DefaultBatch is the most rows that a claim takes from one table.
	DefaultBatch = 500

	// DefaultTimeout is how long a row may be marked as being processed
	// before it counts as stuck.
	DefaultTimeout = 5 * time.Minute
)

// Config says which tables a [Queue] works on.
type Config struct {
	URL    string // mysql://user:password@host:port/database
	TLS    my.TLS // the zero value is safe
	Tables []Table
	Layout Layout // of all tables

	// Fenced: the state store is in the same database, and settling asks for the epochs of lanes. Tables with a status for
	// rows that are being processed need none.
	Fenced bool

	Batch   int           // rows that one claim takes from one table; 0: [DefaultBatch]
	Timeout time.Duration // after which a row that is marked as being processed counts as stuck; 0: [DefaultTimeout]
	Logger  *slog.Logger  // nil: slog.Default()

	// MaxRow is the largest payload that is read, in bytes; a row with a larger one
	// is dead. 0: [adapters.DefaultMaxRow].
	MaxRow int64
}

// Queue claims and settles rows of queue tables in MariaDB or MySQL. It implements
// [adapters.Queue]. What it holds, it remembers until it is settled; claims do not outlive it.
type Queue struct {
	queue.Operators
	db      *sql.DB
	token   int64 // of this queue, in outrider_claim
	tables  []*table
	fenced  bool
	batch   atomic.Int64 // see SetBatch
	timeout time.Duration
	log     *slog.Logger

	// claiming is held while rows are claimed and while rows are put back: a row
	// that is put back must not be overtaken by a claim that is under way. It guards what tables know of their rows.
	claiming sync.Mutex

	claims queue.Claims[*table, *hold]
	locked time.Time // when a settle last met a row that another session has locked; guarded by the lock of claims
}

// hold is a claim that has not been settled.
type hold struct {
	token   string
	key     any       // as the column has it
	stamp   time.Time // when the row was marked, as the column has it; zero in tables without claims
	former  time.Time // what stamp was before an extension that may have been written
	term    uint64    // of the lane; see [adapters.ClaimRequest]
	slot    int
	unknown bool // it is not known whether a result was written
}

// Token implements [queue.Hold].
func (h *hold) Token() string { return h.token }

var _ adapters.OperatorQueue = (*Queue)(nil)

// New returns a queue. It checks the configuration and reads nothing: [Queue.Check] does.
func New(cfg Config) (*Queue, error) {
	if err := validate(&cfg.Layout); err != nil {
		return nil, fmt.Errorf("mysql queue: layout: %w", err)
	}
	if len(cfg.Tables) == 0 {
		return nil, errors.New("mysql queue: no table is named")
	}
	if cfg.Batch < 0 || cfg.Timeout < 0 {
		return nil, errors.New("mysql queue: Batch and Timeout must not be negative; 0 is the default")
	}
	q := &Queue{fenced: cfg.Fenced, timeout: cmp.Or(cfg.Timeout, DefaultTimeout), log: cmp.Or(cfg.Logger, slog.Default()),
		token: 1 + rand.Int64N(math.MaxInt64)} //nolint:gosec // it identifies processes, and is no secret
	q.SetBatch(cfg.Batch)
	for _, of := range cfg.Tables {
		t, err := newTable(of, &cfg.Layout, cmp.Or(cfg.MaxRow, adapters.DefaultMaxRow))
		if err != nil {
			return nil, fmt.Errorf("mysql queue: %w", err)
		}
		for _, other := range q.tables {
			if other.at == t.at {
				return nil, fmt.Errorf("mysql queue: table %s is named twice", of.Name)
			}
		}
		q.tables = append(q.tables, t)
	}
	db, err := (&my.Connection{URL: cfg.URL, TLS: cfg.TLS, LockWait: 1}).Open()
	if err != nil {
		return nil, fmt.Errorf("mysql queue: %w", err)
	}
	q.db = db
	q.claims.Init(&cfg.Layout, q.tables)
	q.Operators = newOperators(q, &cfg)
	return q, nil
}

// SetBatch changes [Config.Batch] of a queue, from the next claim on. 0: [DefaultBatch].
func (q *Queue) SetBatch(rows int) { q.batch.Store(int64(cmp.Or(rows, DefaultBatch))) }

// Close releases the connections. Rows that are claimed stay marked as being
// processed until a recovery; put them back before.
func (q *Queue) Close() error { return q.db.Close() }

// wrap says what failed, and of which table.
func wrap(table, what string, err error) error {
	return my.Describe("mysql queue "+table, what, err)
}

// described is a table whose statements are known.
func (q *Queue) described(ctx context.Context, t *table) (*statements, error) {
	q.claiming.Lock()
	defer q.claiming.Unlock()
	return t.describe(ctx, q.db)
}

// Coverage implements [adapters.Queue].
func (q *Queue) Coverage() adapters.Coverage { return q.claims.Coverage() }

// KeepsDue implements [adapters.DueKeeper].
func (q *Queue) KeepsDue() bool { return q.tables[0].layout.Columns.NextAttempt != "" }
