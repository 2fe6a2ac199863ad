package queuetable

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
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
	DefaultBatch = 500

	// DefaultTimeout is how long a row may be marked as being processed
	// before it counts as stuck.
	DefaultTimeout = 5 * time.Minute
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
// [adapters.Queue]. What it holds, it remembers until it is settled; claims do not outlive it.
type Queue struct {
	queue.Operators
	db      *sql.DB
	tables  []*table
	fenced  bool
	batch   atomic.Int64 // see SetBatch
	timeout time.Duration
	log     *slog.Logger
	file    *lite.Watch

	// claiming is held while rows are claimed and while rows are put back: a row
	// that is put back must not be overtaken by a claim that is under way. It guards what tables know of their entries.
	claiming sync.Mutex

	claims queue.Claims[*table, *hold]
	stamp  time.Time // of the last claim; guarded by the lock of claims
}

// hold is a claim that has not been settled.
type hold struct {
	token    string
	key      any // as the column has it
	at       *entry
	stamp    any    // when the row was marked, as the column has it; nil in tables without claims
	former   any    // what stamp was before an extension
	term     uint64 // of the lane; see [adapters.ClaimRequest]
	blocking bool   // a group waits for its end
}

// Token implements [queue.Hold].
func (h *hold) Token() string { return h.token }

var _ adapters.OperatorQueue = (*Queue)(nil)

// New returns a queue. It checks the configuration and reads nothing: [Queue.Check] does.
func New(cfg Config) (*Queue, error) {
	if err := validate(&cfg.Layout); err != nil {
		return nil, fmt.Errorf("sqlite queue: layout: %w", err)
	}
	if len(cfg.Tables) == 0 {
		return nil, errors.New("sqlite queue: no table is named")
	}
	if cfg.Batch < 0 || cfg.Timeout < 0 {
		return nil, errors.New("sqlite queue: Batch and Timeout must not be negative; 0 is the default")
	}
	q := &Queue{fenced: cfg.Fenced, timeout: cmp.Or(cfg.Timeout, DefaultTimeout), log: cmp.Or(cfg.Logger, slog.Default())}
	q.SetBatch(cfg.Batch)
	for _, of := range cfg.Tables {
		for _, other := range q.tables {
			if strings.EqualFold(other.name, of.Name) {
				return nil, fmt.Errorf("sqlite queue: table %s is named twice", of.Name)
			}
		}
		q.tables = append(q.tables, newTable(of, &cfg.Layout, cmp.Or(cfg.MaxRow, adapters.DefaultMaxRow)))
	}
	db, err := lite.Open(cfg.Path)
	if err != nil {
		return nil, err
	}
	name, _ := lite.File(cfg.Path) // it was opened
	q.db, q.file = db, lite.WatchFile(name)
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
	if err == nil {
		return nil
	}
	return fmt.Errorf("sqlite queue %s: %s: %w", table, what, err)
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
