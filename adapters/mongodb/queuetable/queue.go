package queuetable

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
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
	DefaultBatch = queue.DefaultBatch

	// DefaultTimeout is how long a document may be marked as being processed
	// before it counts as stuck.
	DefaultTimeout = queue.DefaultTimeout

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

// Queue claims and settles documents. It implements [adapters.Queue].
type Queue struct {
	*engine
	server  *mdb.Server
	token   string // of this queue, in [ClaimField]
	tables  []*table
	fields  layout.Columns
	layout  *Layout
	first   string // the smallest status of an unfinished document
	timeout time.Duration
	maxRow  int64
	log     *slog.Logger
	waker   *waker // nil: nothing wakes the reader
}

type (
	engine  = queue.Engine[*table]
	settled = queue.Settled[*table]
)

// stamps are the times that a document may have as that of a claim. They are text, eight bytes each, so that claims with the same ones can be
// found by them.
type stamps string

// stampsOf are some times.
func stampsOf(times ...time.Time) stamps {
	var all []byte
	for _, at := range times {
		all = binary.BigEndian.AppendUint64(all, uint64(at.UnixMilli()))
	}
	return stamps(all)
}

// dates are the times as documents have them.
func (s stamps) dates() (all []bson.DateTime) {
	for ; len(s) > 0; s = s[8:] {
		all = append(all, bson.DateTime(binary.BigEndian.Uint64([]byte(s[:8]))))
	}
	return all
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
	if cfg.Batch < 0 || cfg.Timeout < 0 {
		return nil, errors.New("mongodb queue: Batch and Timeout must not be negative; 0 is the default")
	}
	q := &Queue{token: rand.Text(), layout: &l, fields: *l.Fields, first: firstUnfinished(&l), timeout: cmp.Or(cfg.Timeout, DefaultTimeout),
		maxRow: cmp.Or(cfg.MaxRow, adapters.DefaultMaxRow), log: cmp.Or(cfg.Logger, slog.Default())}
	for _, of := range cfg.Tables {
		q.tables = append(q.tables, &table{Table: of, q: q})
	}
	var err error
	q.engine, err = queue.NewEngine(queue.Backend[*table]{Name: "mongodb queue", Layout: &l, Tables: cfg.Tables, Batch: cfg.Batch, PageRows: pageDocuments, ClaimRows: claimDocuments, Logger: cfg.Logger,
		Settle: q.settle, Renew: q.renew, Answered: func(error) bool { return false }, Refused: mdb.Refused, Wrap: wrap}, q.tables)
	if err != nil {
		return nil, err
	}
	if q.server, err = cfg.Open(); err != nil {
		return nil, fmt.Errorf("mongodb queue: %w", err)
	}
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
	case l.Statuses.Processing == "":
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

// firstUnfinished is the smallest status of an unfinished document. Those of finished ones are smaller, so one comparison, which partial indexes of all
// versions know, finds the unfinished ones.
func firstUnfinished(l *Layout) string {
	return min(l.Statuses.Pending, l.Statuses.Again(), l.Statuses.Processing)
}

// Close releases the connections. Documents that are claimed stay marked as being
// processed until a recovery; put them back before.
func (q *Queue) Close() error {
	if q.waker != nil {
		q.waker.close()
	}
	return q.server.Close()
}

// wrap says what failed, and of which collection.
func wrap(table, what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("mongodb queue %s: %s: %w", table, what, mdb.Plainly(err))
}

// nextStamp is a time for claims that no earlier one of this process has had, by the server's clock, by which they are recovered.
func (q *Queue) nextStamp() time.Time { return q.Stamp(q.server.Clock()) }

// background is for what has to be done although the caller gives up.
func background(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
}
