package queuetable

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/queue"
	"github.com/outriderhq/outrider/adapters/layout"
	"github.com/outriderhq/outrider/adapters/mongodb/internal/mdb"
)

// Package layout describes queues.
type (
	// Layout says what the fields and statuses of documents are called.
	Layout = layout.Queue
	// Table is one collection of a [Queue].
	Table = layout.Table
)

const (
	// DefaultBatch is the most documents that a claim takes from one collection.
	DefaultBatch = 500

	// DefaultTimeout is how long a document may be marked as being processed
	// before it counts as stuck.
	DefaultTimeout = 5 * time.Minute

	// ClaimField is the field that holds the token of a claim of ours, as long as it lasts.
	ClaimField = "outriderClaim"
)

// Connection says how a server is reached.
type Connection = mdb.Connection

// Config says which collections a [Queue] works on.
type Config struct {
	Connection

	Tables []Table // collections of one layout, at least one
	Layout Layout  // must have Fields

	Batch   int           // documents that one claim takes from one collection; 0: [DefaultBatch]
	Timeout time.Duration // after which a document that is marked as being processed counts as stuck; 0: [DefaultTimeout]
	Notify  bool          // a change stream wakes the reader, where the server has them
	Logger  *slog.Logger  // nil: slog.Default()

	// MaxRow is the largest payload that is delivered, in bytes; a document with a larger one
	// is dead. 0: [adapters.DefaultMaxRow].
	MaxRow int64
}

// Queue claims and settles documents. It implements [adapters.Queue]. What it holds, it remembers until it is settled; claims
// do not outlive it.
type Queue struct {
	server  *mdb.Server
	tables  []*table
	fields  layout.Columns
	layout  *Layout
	first   string // the smallest status of an unfinished document
	batch   atomic.Int64
	timeout time.Duration
	maxRow  int64
	log     *slog.Logger
	waker   *waker // nil: nothing wakes the reader

	// claiming is held while documents are claimed and while they are put back: one
	// that is put back must not be overtaken by a claim that is under way. It guards what tables know of their scans.
	claiming sync.Mutex

	claims queue.Claims[*table, *hold]
	stamp  time.Time // of the last claim; guarded by the lock of claims
}

// hold is a claim that has not been settled.
type hold struct {
	token  string
	key    bson.RawValue
	stamps stamps
}

// Token implements [queue.Hold].
func (h *hold) Token() string { return h.token }

// stamps are the times that a document may have as that of a claim: an extension that failed may have been written, however many failed after
// it. They are text, eight bytes each, so that claims with the same ones can be found by them.
type stamps string

// stampsOf are one time.
func stampsOf(at time.Time) stamps {
	return stamps(binary.BigEndian.AppendUint64(nil, uint64(at.UnixMilli())))
}

// dates are the times as documents have them.
func (s stamps) dates() (all []bson.DateTime) {
	for ; len(s) > 0; s = s[8:] {
		all = append(all, bson.DateTime(binary.BigEndian.Uint64([]byte(s[:8]))))
	}
	return all
}

// is reports whether a document is marked as the hold says.
func (h *hold) is(token string, claimed time.Time) bool {
	return token == h.token && slices.Contains(h.stamps.dates(), date(claimed))
}

var (
	_ adapters.OperatorQueue = (*Queue)(nil)
	_ adapters.Waker         = (*Queue)(nil)
)

// New returns a queue. It checks the configuration and connects to nothing: [Queue.Check] does.
func New(cfg Config) (*Queue, error) {
	l := cfg.Layout
	if err := validate(&l); err != nil {
		return nil, fmt.Errorf("mongodb queue: layout: %w", err)
	}
	if len(cfg.Tables) == 0 {
		return nil, errors.New("mongodb queue: no collection is named")
	}
	if cfg.Batch < 0 || cfg.Timeout < 0 {
		return nil, errors.New("mongodb queue: Batch and Timeout must not be negative; 0 is the default")
	}
	s, err := cfg.Open()
	if err != nil {
		return nil, fmt.Errorf("mongodb queue: %w", err)
	}
	q := &Queue{server: s, layout: &l, fields: *l.Fields, first: firstUnfinished(&l), timeout: cmp.Or(cfg.Timeout, DefaultTimeout),
		maxRow: cmp.Or(cfg.MaxRow, adapters.DefaultMaxRow), log: cmp.Or(cfg.Logger, slog.Default())}
	q.SetBatch(cfg.Batch)
	for _, of := range cfg.Tables {
		if slices.ContainsFunc(q.tables, func(t *table) bool { return t.Is(of.Name) }) {
			return nil, fmt.Errorf("mongodb queue: collection %s is named twice", of.Name)
		}
		q.tables = append(q.tables, newTable(q, of))
	}
	q.claims.Init(&l, q.tables)
	if cfg.Notify {
		q.waker = newWaker(q)
	}
	return q, nil
}

// validate reports what no queue in MongoDB can work with.
func validate(l *Layout) error {
	if l.Fields == nil {
		return errors.New("it has no names for the fields of documents")
	}
	named := *l
	named.Columns = *l.Fields
	errs := named.Problems()
	f := l.Fields
	switch {
	case l.Claimless():
		errs = append(errs, errors.New("documents need a status for those that are being processed"))
	case f.Group == "" || l.DefaultGroup == "" || f.Attempts == "":
		errs = append(errs, errors.New("documents need a field for groups, a group for those without one, and a field for attempts"))
	case f.NextAttempt != "" || f.Owner != "" || f.Updated != "" || f.AggregateType != "" || f.Tenant != "" || f.Headers != "" || len(l.Headers) > 0 || len(l.DeadBy) > 0:
		errs = append(errs, errors.New("it has fields that are not implemented for MongoDB"))
	case firstUnfinished(l) <= max(l.Statuses.Done, l.Statuses.Dead):
		errs = append(errs, errors.New("the statuses of unfinished documents must come after the others, for a partial index"))
	}
	return errors.Join(errs...)
}

// firstUnfinished is the smallest status of an unfinished document. The others are smaller, so that one comparison,
// which partial indexes of all versions know, tells them apart.
func firstUnfinished(l *Layout) string {
	return min(l.Statuses.Pending, l.Statuses.Again(), l.Statuses.Processing)
}

// SetBatch changes [Config.Batch] of a queue, from the next claim on. 0: [DefaultBatch].
func (q *Queue) SetBatch(rows int) { q.batch.Store(int64(cmp.Or(rows, DefaultBatch))) }

// Close releases the connections. Documents that are claimed stay marked as being
// processed until a recovery; put them back before.
func (q *Queue) Close() error {
	if q.waker != nil {
		q.waker.close()
	}
	return q.server.Close()
}

// wrap says what failed, and of which collection.
func wrap(t *table, what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("mongodb queue %s: %s: %w", t.Name, what, mdb.Plainly(err))
}

// Coverage implements [adapters.Queue].
func (q *Queue) Coverage() adapters.Coverage { return q.claims.Coverage() }

// nextStamp is a time for claims that no earlier one of this process has had, in whole milliseconds by the server's clock, by which they are
// recovered.
func (q *Queue) nextStamp() time.Time {
	q.claims.Lock()
	defer q.claims.Unlock()
	now := q.server.Clock().Truncate(time.Millisecond)
	if !now.After(q.stamp) {
		now = q.stamp.Add(time.Millisecond)
	}
	q.stamp = now
	return now
}

// background is for what has to be done although the caller gives up.
func background(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
}
