package river

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/pgtx"
)

// Destination inserts a job for each message. It is an [adapters.TxDestination] and an [adapters.Checker].
type Destination struct {
	cfg        Config
	templates  templates
	client     *river.Client[pgx.Tx]
	duplicates atomic.Int64
	copyless   atomic.Bool // the table takes no COPY
}

var (
	_ adapters.TxDestination    = (*Destination)(nil)
	_ adapters.Checker          = (*Destination)(nil)
	_ adapters.DuplicateCounter = (*Destination)(nil)
	_ adapters.DepthCounter     = (*Destination)(nil)
)

// New returns a destination, or an error that lists what is wrong with the configuration. It does not connect.
func New(cfg Config) (*Destination, error) {
	cfg, err := cfg.WithDefaults()
	t, parseErr := cfg.parse()
	if err := errors.Join(err, parseErr); err != nil {
		return nil, fmt.Errorf("river: %w", err)
	}
	client, err := river.NewClient(riverpgxv5.New(cfg.Pool), &river.Config{
		Schema: cfg.Schema,
		Logger: slog.New(slog.DiscardHandler), // what it logs when it inserts, it returns too

		Middleware: []rivertype.Middleware{river.JobInsertMiddlewareFunc(refuseSame)},
	})
	if err != nil {
		return nil, fmt.Errorf("river: %w", err)
	}
	return &Destination{cfg: cfg, templates: t, client: client}, nil
}

// Database implements [adapters.TxDestination].
func (d *Destination) Database() string {
	c := d.cfg.Pool.Config().ConnConfig
	return adapters.DatabaseName(c.Host, c.Port, c.Database)
}

// Address implements [adapters.Destination]: River's tables.
func (d *Destination) Address(*message.Message) (string, error) {
	return d.Database() + " " + d.cfg.Schema + ".river_job", nil
}

// Ordering implements [adapters.Destination].
func (d *Destination) Ordering() adapters.Ordering {
	return pgtx.Ordering(d.cfg.Messages)
}

// Duplicates implements [adapters.DuplicateCounter]: jobs that River has refused because they exist; see [Config.Unique].
func (d *Destination) Duplicates() int64 { return d.duplicates.Load() }

// depthSQL counts the jobs that wait for a worker, for their time or for their next attempt, along River's index by state.
const depthSQL = `SELECT count(*)::int FROM (
    SELECT FROM %s WHERE state IN ('available', 'pending', 'retryable', 'scheduled') AND ($2 = '' OR queue = $2) LIMIT $1) j`

// Depth implements [adapters.DepthCounter]: of the queue that jobs go to or, where that is a template, of all.
func (d *Destination) Depth(ctx context.Context, most int) (n int, err error) {
	queue := d.cfg.Queue
	if strings.Contains(queue, "{{") {
		queue = ""
	}
	err = d.cfg.Pool.QueryRow(ctx, fmt.Sprintf(depthSQL, pgx.Identifier{d.cfg.Schema, "river_job"}.Sanitize()), most, queue).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("river: count jobs: %w", err)
	}
	return n, nil
}

// Close implements [adapters.Destination].
func (d *Destination) Close() error {
	d.cfg.Pool.Close()
	return nil
}

// Deliver implements [adapters.Destination], in transactions of its own: at least once.
func (d *Destination) Deliver(ctx context.Context, address string, batch []*message.Message) []error {
	return pgtx.Deliver(ctx, "river", d.cfg.Pool, d, address, batch)
}

// DeliverTx implements [adapters.TxDestination]. Its tx is a pgx.Tx.
func (d *Destination) DeliverTx(ctx context.Context, tx any, _ string, batch []*message.Message) (committed func(), errs []error) {
	params, bad := make([]river.InsertManyParams, len(batch)), false
	errs = make([]error, len(batch))
	for i, msg := range batch {
		params[i], errs[i] = d.params(msg)
		bad = bad || errs[i] != nil
	}
	if bad {
		return nil, errs
	}
	repeated, err := d.insert(ctx, tx.(pgx.Tx), params) //nolint:forcetypeassert // what PostgreSQL's transactions are
	if err != nil {
		for i := range errs {
			errs[i] = err
		}
		return nil, errs
	}
	return func() { d.duplicates.Add(repeated) }, nil
}

// insert inserts jobs, and returns how many River has refused as duplicates. Without uniqueness there are none, and River's COPY, which
// has no ON CONFLICT and returns no rows, takes half of the server's time.
func (d *Destination) insert(ctx context.Context, tx pgx.Tx, params []river.InsertManyParams) (repeated int64, err error) {
	if !d.cfg.Unique.is() && !d.copyless.Load() {
		_, err := d.client.InsertManyFastTx(ctx, tx, params)
		if refused, ok := errors.AsType[*pgconn.PgError](err); ok && slices.Contains(noCopy, refused.Code) {
			d.copyless.Store(true)
			return 0, fmt.Errorf("%w: river: copy jobs: %w", adapters.ErrConflict, err) // the next try inserts them
		}
		return 0, refusal(err)
	}
	inserted, err := d.client.InsertManyTx(ctx, tx, params)
	if same, ok := errors.AsType[*sameJobsError](err); ok {
		repeated, err = d.insert(ctx, tx, same.without(params))
		return repeated + same.repeated(), err
	}
	for _, r := range inserted {
		if r.UniqueSkippedAsDuplicate {
			repeated++
		}
	}
	return repeated, refusal(err)
}

// noCopy are the codes of COPY to a table that takes INSERT only: one with row security, and a view.
var noCopy = []string{"0A000", "42809"}

// refusal gives an error of River its kind.
func refusal(err error) error {
	if err == nil {
		return nil
	}
	return pgtx.Classify(fmt.Errorf("river: insert jobs: %w", err), fixes)
}

var fixes = pgtx.Fixes{
	Shape:  "River's tables are missing or of an older version: run its migrations (river migrate-up)",
	Rights: "GRANT SELECT, INSERT, UPDATE ON river_job, and USAGE ON SEQUENCE river_job_id_seq, to the role that Outrider connects as",
}
