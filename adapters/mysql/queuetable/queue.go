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
	DefaultBatch = queue.DefaultBatch

	// DefaultTimeout is how long a row may be marked as being processed
	// before it counts as stuck.
	DefaultTimeout = queue.DefaultTimeout
)

const (
	// pageRows is how many entries of the index one statement reads.
	pageRows = 1000

	// claimRows is how many a claim reads before it ends without result; the next one continues.
	claimRows = 100_000
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
// [adapters.Queue].
type Queue struct {
	queue.Operators
	*engine
	db      *sql.DB
	token   int64 // of this queue, in outrider_claim
	tables  []*table
	fenced  bool
	timeout time.Duration
	log     *slog.Logger
	locked  time.Time // when a settle last met a row that another session has locked

	transact func(ctx context.Context, db *sql.DB, f func(tx *sql.Tx) error) error // [my.Transact]; tests break it
}

type (
	engine  = queue.Engine[*table]
	settled = queue.Settled[*table]
)

var _ adapters.OperatorQueue = (*Queue)(nil)

// New returns a queue. It checks the configuration and reads nothing: [Queue.Check] does.
func New(cfg Config) (*Queue, error) {
	if err := queue.Validate(&cfg.Layout, "MySQL"); err != nil {
		return nil, fmt.Errorf("mysql queue: layout: %w", err)
	}
	if cfg.Batch < 0 || cfg.Timeout < 0 {
		return nil, errors.New("mysql queue: Batch and Timeout must not be negative; 0 is the default")
	}
	q := &Queue{transact: my.Transact, fenced: cfg.Fenced, timeout: cmp.Or(cfg.Timeout, DefaultTimeout), log: cmp.Or(cfg.Logger, slog.Default()),
		token: 1 + rand.Int64N(math.MaxInt64)} //nolint:gosec // it identifies processes, and is no secret
	for _, of := range cfg.Tables {
		t, err := newTable(of, &cfg.Layout, cfg.MaxRow)
		if err != nil {
			return nil, fmt.Errorf("mysql queue: %w", err)
		}
		t.q, q.tables = q, append(q.tables, t)
	}
	var err error
	q.engine, err = queue.NewEngine(queue.Backend[*table]{Name: "mysql queue", Layout: &cfg.Layout, Tables: cfg.Tables, Batch: cfg.Batch, PageRows: pageRows, ClaimRows: claimRows, Logger: cfg.Logger,
		Settle: q.settle, Renew: q.renew, Answered: my.Answered, Refused: my.Refused, Wrap: wrap}, q.tables)
	if err != nil {
		return nil, err
	}
	if q.db, err = (&my.Connection{URL: cfg.URL, TLS: cfg.TLS, LockWait: 1}).Open(); err != nil {
		return nil, fmt.Errorf("mysql queue: %w", err)
	}
	q.Operators = newOperators(q, &cfg)
	return q, nil
}

// Close releases the connections. Rows that are claimed stay marked as being
// processed until a recovery; put them back before.
func (q *Queue) Close() error { return q.db.Close() }

// wrap says what failed, and of which table.
func wrap(table, what string, err error) error {
	return my.Describe("mysql queue "+table, what, err)
}

// described is a table whose statements are known.
func (q *Queue) described(ctx context.Context, t *table) (*statements, error) {
	err := q.Describe(ctx, t, false)
	return t.sql(), err
}
