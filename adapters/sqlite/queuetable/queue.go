package queuetable

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/queue"
	"github.com/outriderhq/outrider/adapters/layout"
	"github.com/outriderhq/outrider/adapters/sqlite/internal/lite"
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

// Config says which tables a [Queue] works on.
type Config struct {
	Path   string  // of the database; it must exist
	Tables []Table // of one layout, at least one
	Layout Layout

	// Fenced: the state store is in the same file, and settling asks for the epochs of lanes. Tables with a status for
	// rows that are being processed need none.
	Fenced bool

	Batch   int           // rows that one claim takes from one table; 0: [DefaultBatch]
	Timeout time.Duration // after which a row that is marked as being processed counts as stuck; 0: [DefaultTimeout]
	Logger  *slog.Logger  // nil: slog.Default()

	// MaxRow is the largest payload that is read, in bytes; a row with a larger one
	// is dead. 0: [adapters.DefaultMaxRow].
	MaxRow int64
}

// Queue claims and settles rows of queue tables in a SQLite file. It implements
// [adapters.Queue].
type Queue struct {
	queue.Operators
	*engine
	db      *sql.DB
	tables  []*table
	fenced  bool
	timeout time.Duration
	log     *slog.Logger
	file    *lite.Watch
}

type (
	engine  = queue.Engine[*table]
	settled = queue.Settled[*table]
)

var _ adapters.OperatorQueue = (*Queue)(nil)

// New returns a queue. It checks the configuration and reads nothing: [Queue.Check] does.
func New(cfg Config) (*Queue, error) {
	if err := queue.Validate(&cfg.Layout, "SQLite"); err != nil {
		return nil, fmt.Errorf("sqlite queue: layout: %w", err)
	}
	if cfg.Batch < 0 || cfg.Timeout < 0 {
		return nil, errors.New("sqlite queue: Batch and Timeout must not be negative; 0 is the default")
	}
	q := &Queue{fenced: cfg.Fenced, timeout: cmp.Or(cfg.Timeout, DefaultTimeout), log: cmp.Or(cfg.Logger, slog.Default())}
	for _, of := range cfg.Tables {
		t := newTable(of, &cfg.Layout, cfg.MaxRow)
		t.q, q.tables = q, append(q.tables, t)
	}
	var err error
	q.engine, err = queue.NewEngine(queue.Backend[*table]{Name: "sqlite queue", Layout: &cfg.Layout, Tables: cfg.Tables, Batch: cfg.Batch, PageRows: pageRows, ClaimRows: claimRows, Logger: cfg.Logger,
		Settle: q.settle, Renew: q.renew, Answered: func(error) bool { return true }, Refused: lite.Refused, Wrap: wrap}, q.tables)
	if err != nil {
		return nil, err
	}
	db, err := lite.Open(cfg.Path)
	if err != nil {
		return nil, err
	}
	name, _ := lite.File(cfg.Path) // it was opened
	q.db, q.file = db, lite.WatchFile(name)
	q.Operators = newOperators(q, &cfg)
	return q, nil
}

// Close releases the connections. Rows that are claimed stay marked as being
// processed until a recovery; put them back before.
func (q *Queue) Close() error { return q.db.Close() }

// wrap says what failed, and of which table.
func wrap(table, what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("sqlite queue %s: %s: %w", table, what, err)
}

// described is a table whose statements are known.
func (q *Queue) described(ctx context.Context, t *table) (*statements, error) {
	err := q.Describe(ctx, t, false)
	return t.sql(), err
}
