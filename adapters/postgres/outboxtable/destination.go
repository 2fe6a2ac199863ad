package outboxtable

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/pgtx"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
	"github.com/outriderhq/outrider/outbox"
)

// Destination inserts a row for each message. It is an [adapters.TxDestination] and an [adapters.Checker].
type Destination struct {
	cfg        Config
	templates  templates
	targets    []*target
	looks      *pgxpool.Pool
	duplicates atomic.Int64
}

var (
	_ adapters.TxDestination    = (*Destination)(nil)
	_ adapters.Checker          = (*Destination)(nil)
	_ adapters.DuplicateCounter = (*Destination)(nil)
)

// New returns a destination, or an error that lists what is wrong with the configuration. It does not connect.
func New(cfg Config) (*Destination, error) {
	d := &Destination{}
	var err, parseErr, nameErr error
	d.cfg, err = cfg.WithDefaults()
	d.templates, parseErr = d.cfg.parse()
	if err == nil {
		d.targets, nameErr = d.cfg.targets()
	}
	if err := errors.Join(err, parseErr, nameErr); err != nil {
		return nil, fmt.Errorf("sql: %w", err)
	}
	if d.looks, err = lookPool(d.cfg.Pool); err != nil {
		return nil, fmt.Errorf("sql: %w", err)
	}
	for _, t := range d.targets {
		t.pool = d.looks
	}
	return d, nil
}

// lookPool is a connection for looks at tables. Those of the pool may all be in deliveries that wait for a look.
func lookPool(beside *pgxpool.Pool) (*pgxpool.Pool, error) {
	cfg := beside.Config()
	cfg.MaxConns, cfg.MinConns, cfg.MinIdleConns = 1, 0, 0
	return pgxpool.NewWithConfig(context.Background(), cfg)
}

// Database implements [adapters.TxDestination].
func (d *Destination) Database() string { return pg.Database(d.cfg.Pool.Config().ConnConfig) }

// Address implements [adapters.Destination]: the table.
func (d *Destination) Address(*message.Message) (string, error) {
	return d.Database() + " " + strings.Join(d.cfg.names(), ", "), nil
}

// Ordering implements [adapters.Destination].
func (d *Destination) Ordering() adapters.Ordering {
	return pgtx.Ordering(d.cfg.Messages)
}

// Duplicates implements [adapters.DuplicateCounter]: messages of which the table had a row.
func (d *Destination) Duplicates() int64 { return d.duplicates.Load() }

// Close implements [adapters.Destination].
func (d *Destination) Close() error {
	d.looks.Close()
	d.cfg.Pool.Close()
	return nil
}

// Deliver implements [adapters.Destination], in transactions of its own: at least once.
func (d *Destination) Deliver(ctx context.Context, address string, batch []*message.Message) []error {
	return pgtx.Deliver(ctx, "sql", d.cfg.Pool, d, address, batch)
}

// DeliverTx implements [adapters.TxDestination]. Its tx is a pgx.Tx.
func (d *Destination) DeliverTx(ctx context.Context, tx any, _ string, batch []*message.Message) (committed func(), errs []error) {
	records := make([]record, len(batch))
	errs = make([]error, len(batch))
	bad, repeated := false, int64(0)
	for i, msg := range batch {
		if records[i], errs[i] = d.record(msg); errs[i] != nil {
			errs[i], bad = outbox.Permanent(fmt.Errorf("sql: %w", errs[i])), true
		}
	}
	if bad {
		return nil, errs
	}
	for i, t := range d.targets {
		n, err := d.insert(ctx, tx.(pgx.Tx), t, d.of(i, records), errs) //nolint:forcetypeassert // what PostgreSQL's transactions are
		if repeated += n; err != nil {
			for i := range errs {
				errs[i] = err
			}
			return nil, errs
		}
		for _, err := range errs {
			bad = bad || err != nil
		}
	}
	if bad {
		return nil, errs
	}
	return func() { d.duplicates.Add(repeated) }, nil
}

// of are the records of one target.
func (d *Destination) of(target int, records []record) []*record {
	out := make([]*record, 0, len(records))
	for i := range records {
		if r := &records[i]; len(d.targets) == 1 || d.targetOf(r) == target {
			r.index = i
			out = append(out, r)
		}
	}
	return out
}

// targetOf is the table of a record, by its kind. A record without one belongs to the first.
func (d *Destination) targetOf(r *record) int {
	for i, t := range d.targets {
		if t.kind == r.kind {
			return i
		}
	}
	return 0
}

// insert writes the records of one table. An error is that of all messages; what is wrong with single ones
// is in errs. It returns how many of the messages the table had already.
func (d *Destination) insert(ctx context.Context, tx pgx.Tx, t *target, records []*record, errs []error) (repeated int64, err error) {
	if len(records) == 0 {
		return 0, nil
	}
	s, err := t.shape(ctx)
	if err != nil {
		return 0, err
	}
	text, args, ok := s.write.statement(records, errs)
	if !ok {
		return 0, nil
	}
	var b pgx.Batch
	b.Queue(text, args...)
	if s.wake != "" {
		b.Queue(s.wake)
	}
	b.Queue("SET CONSTRAINTS ALL IMMEDIATE") // one that is deferred would refuse the COMMIT, which says of no message that it is at fault
	results := tx.SendBatch(ctx, &b)
	tag, err := results.Exec()
	if closeErr := results.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return 0, t.refused(ctx, s, err)
	}
	return int64(len(records)) - tag.RowsAffected(), nil
}
