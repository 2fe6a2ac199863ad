package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outriderhq/outrider/adapters"
)

const (
	// DefaultBatch is the most rows that a claim takes from one table.
	DefaultBatch = 500

	// DefaultTimeout is how long a row may be marked as being processed before it counts as stuck.
	DefaultTimeout = 5 * time.Minute
)

// Engine claims and settles rows of a queue's tables. A queue embeds it. It remembers what it has claimed until that is settled; leases do not outlive it.
type Engine[T Driver] struct {
	db     Backend[T]
	tables []*engineTable[T]
	batch  atomic.Int64
	log    *slog.Logger

	// claiming is held while rows are claimed and while rows are put back: a row that is put back must not be overtaken by a claim that is
	// under way. It guards what tables know of their rows.
	claiming sync.Mutex

	mu     sync.Mutex // guards leases, and what follows
	first  int        // the table that is served first, in turn
	tokens int64      // that leases have had
	stamp  time.Time  // the last one of ours
}

// engineTable is a table of an [Engine].
type engineTable[T Driver] struct {
	Table
	Driver T
	leases
	coverage adapters.Coverage // of the claims so far; the engine's lock guards it

	described bool
	rounds
	orphans []orphan
	mean    int64 // bytes of a payload, about
}

// orphan names rows that a failed claim may have marked.
type orphan struct {
	keys  []any
	stamp time.Time
}

// NewEngine returns an engine; the drivers are those of the tables.
func NewEngine[T Driver](db Backend[T], drivers []T) (*Engine[T], error) {
	if len(drivers) == 0 {
		return nil, errors.New(db.Name + ": no table is named")
	}
	e := &Engine[T]{db: db, log: cmp.Or(db.Logger, slog.Default())}
	e.SetBatch(db.Batch)
	for i, d := range drivers {
		if slices.ContainsFunc(drivers[:i], func(other T) bool { return other.ID() == d.ID() }) {
			return nil, fmt.Errorf("%s: table %s is named twice", db.Name, db.Tables[i].Name)
		}
		e.tables = append(e.tables, &engineTable[T]{Table: NewTable(db.Tables[i], db.Layout, 0), Driver: d, leases: leases{held: map[string]*Lease{}}, rounds: newRounds()})
	}
	return e, nil
}

// SetBatch changes how many rows one claim takes from one table, from the next claim on. 0: [DefaultBatch].
func (e *Engine[T]) SetBatch(rows int) { e.batch.Store(int64(cmp.Or(rows, DefaultBatch))) }

// KeepsDue implements [adapters.Queue].
func (e *Engine[T]) KeepsDue() bool { return e.db.Layout.Columns.NextAttempt != "" }

// Driver returns the driver of a table by its name as configured; the zero value: it is none of the queue's.
func (e *Engine[T]) Driver(name string) (d T) {
	if t := e.table(name); t != nil {
		return t.Driver
	}
	return d
}

func (e *Engine[T]) table(name string) *engineTable[T] {
	if i := slices.IndexFunc(e.tables, func(t *engineTable[T]) bool { return t.Is(name) }); i >= 0 {
		return e.tables[i]
	}
	return nil
}

// Describe has a table described, again if it was before and that is wanted.
func (e *Engine[T]) Describe(ctx context.Context, of T, again bool) error {
	e.claiming.Lock()
	defer e.claiming.Unlock()
	t := e.tables[slices.IndexFunc(e.tables, func(t *engineTable[T]) bool { return t.Driver.ID() == of.ID() })]
	t.described = t.described && !again
	return t.describe(ctx)
}

func (t *engineTable[T]) describe(ctx context.Context) error {
	if t.described {
		return nil
	}
	err := t.Driver.Describe(ctx)
	t.described = err == nil
	return err
}

// Coverage implements [adapters.Queue].
func (e *Engine[T]) Coverage() adapters.Coverage {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := make([]adapters.Coverage, len(e.tables))
	for i, t := range e.tables {
		all[i] = t.coverage
	}
	return Looked(all...)
}

// Stamp is a time for claims that no earlier one of this process has had, in whole milliseconds.
func (e *Engine[T]) Stamp(now time.Time) time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	if now = now.Truncate(time.Millisecond); !now.After(e.stamp) {
		now = e.stamp.Add(time.Millisecond)
	}
	e.stamp = now
	return now
}

// Restart forgets what is known of the rows: everything is read again.
func (e *Engine[T]) Restart() {
	e.claiming.Lock()
	defer e.claiming.Unlock()
	for _, t := range e.tables {
		t.described = false
		t.restart()
	}
}

// Recover implements [adapters.Queue]. Rows that this queue holds are never recovered, however old their claims. It also has the tables
// described again.
func (e *Engine[T]) Recover(ctx context.Context) (recovered int, err error) {
	e.claiming.Lock()
	defer e.claiming.Unlock()
	for _, t := range e.tables {
		t.described = false
		if err := t.describe(ctx); err != nil {
			return recovered, err
		}
		if !t.Marks {
			continue
		}
		e.mu.Lock()
		leases := len(t.held)
		e.mu.Unlock()
		n, err := t.Driver.Recover(ctx, func(key string) bool {
			e.mu.Lock()
			defer e.mu.Unlock()
			return t.held[key] != nil
		}, leases)
		if recovered += n; n > 0 {
			t.restart()
		}
		if err != nil {
			return recovered, e.db.Wrap(t.Name, "recover stuck rows", err)
		}
	}
	return recovered, nil
}

// Processing implements [adapters.OperatorQueue].
func (e *Engine[T]) Processing(ctx context.Context, most int) (p adapters.Processing, err error) {
	for _, t := range e.tables {
		if err := e.Describe(ctx, t.Driver, false); err != nil {
			return adapters.Processing{}, err
		}
		if !t.Marks {
			continue
		}
		n, longest, err := t.Driver.Marked(ctx, most)
		if err != nil {
			return adapters.Processing{}, e.db.Wrap(t.Name, "count rows", err)
		}
		p.Rows += min(n, most)
		p.More = p.More || n > most
		p.Longest = max(p.Longest, longest)
	}
	return p, nil
}

// token returns a token that no other lease has. The caller has the lock.
func (e *Engine[T]) token() string {
	e.tokens++
	return strconv.FormatInt(e.tokens, 10)
}

// inTurn returns the tables; another one is the first of them each time.
func (e *Engine[T]) inTurn() []*engineTable[T] {
	e.mu.Lock()
	defer e.mu.Unlock()
	tables := slices.Concat(e.tables[e.first:], e.tables[:e.first])
	e.first = (e.first + 1) % len(e.tables)
	return tables
}
