package outrider

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres"
	"github.com/outriderhq/outrider/adapters/postgres/logtable"
	"github.com/outriderhq/outrider/adapters/postgres/queuetable"
	"github.com/outriderhq/outrider/adapters/sqlite"
	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/outbox"
)

// Operator is what people and scripts do with a relay's state, from any process
// that reaches its state store: list, redrive and skip parked messages, and
// look at the lanes. A running relay notices within a quarter of its lease.
type Operator struct {
	cfg     *Config
	log     *slog.Logger
	options options
	stores  []adapters.StateStore
	parts   *parts
}

// NewOperator opens the state stores that the configuration uses. The relay need
// not run. Close it afterwards.
func NewOperator(ctx context.Context, cfg *Config, opts ...Option) (*Operator, error) {
	for _, r := range cfg.Routes {
		if location, err := stateLocation(cfg, cfg.Sources[r.From]); err == nil {
			if err := databaseExists(location); err != nil {
				return nil, fmt.Errorf("state store of route %q: %w", r.Name, err)
			}
		}
	}
	return newOperator(ctx, cfg, opts...)
}

// newOperator is [NewOperator] without the check that there is something to
// operate on.
func newOperator(ctx context.Context, cfg *Config, opts ...Option) (*Operator, error) {
	b := newBuilder(cfg, optionsOf(opts))
	if err := errors.Join(b.options.checkPools(cfg)...); err != nil {
		return nil, err
	}
	op := &Operator{cfg: cfg, log: b.log, options: b.options,
		parts: &parts{sources: map[string]adapters.Source{}, states: map[string]adapters.StateStore{}}}
	for _, r := range cfg.Routes {
		s, err := buildState(ctx, b, op.parts, cfg.Sources[r.From])
		if err != nil {
			return nil, errors.Join(fmt.Errorf("route %q: %w", r.Name, err), op.parts.close())
		}
		if !slices.Contains(op.stores, s) {
			op.stores = append(op.stores, s)
		}
	}
	return op, nil
}

// Close frees the connections.
func (op *Operator) Close() error { return op.parts.close() }

// Lanes returns who works which lane, how far it is and what is parked.
func (op *Operator) Lanes(ctx context.Context) ([]adapters.LaneStatus, error) {
	var out []adapters.LaneStatus
	for _, s := range op.stores {
		lanes, err := s.Lanes(ctx)
		if err != nil {
			return nil, err
		}
		out = append(out, lanes...)
	}
	return out, nil
}

// Instances returns the relays that have joined and not left: also dead ones,
// for a while.
func (op *Operator) Instances(ctx context.Context) ([]adapters.Instance, error) {
	var out []adapters.Instance
	for _, s := range op.stores {
		instances, err := s.Instances(ctx)
		if err != nil {
			return nil, err
		}
		out = append(out, instances...)
	}
	return out, nil
}

// Init creates the outbox tables of all sources, and the state tables, where
// they do not exist. It returns what it did, a sentence each.
func Init(ctx context.Context, cfg *Config, opts ...Option) ([]string, error) {
	o := optionsOf(opts)
	if err := errors.Join(o.checkPools(cfg)...); err != nil {
		return nil, err
	}
	var done []string
	for _, name := range sortedNames(cfg.Sources) {
		var did []string
		var err error
		switch s := cfg.Sources[name].(type) {
		case *config.Postgres:
			did, err = initPostgres(ctx, &o, name, s)
		case *config.SQLite:
			did, err = initSQLite(ctx, s)
		}
		for _, d := range did {
			done = append(done, fmt.Sprintf("source %s: %s", name, d))
		}
		if err != nil {
			return done, fmt.Errorf("source %q: %w", name, err)
		}
	}
	op, err := newOperator(ctx, cfg, opts...)
	if err != nil {
		return done, err
	}
	for _, s := range op.stores {
		if err := s.Migrate(ctx); err != nil {
			return done, errors.Join(fmt.Errorf("state tables: %w", err), op.Close())
		}
	}
	return append(done, "state tables are up to date"), op.Close()
}

// InitIndexes creates the indexes that reading needs on the tables of other
// systems (layouts watermill and custom) where they are missing, without stopping
// writers. say is called before each, which may take minutes; nil: never. It returns
// what it did, a sentence each.
func InitIndexes(ctx context.Context, cfg *Config, say func(string), opts ...Option) ([]string, error) {
	o := optionsOf(opts)
	if say == nil {
		say = func(string) {}
	}
	var done []string
	for _, name := range sortedNames(cfg.Sources) {
		s, ok := cfg.Sources[name].(*config.Postgres)
		if !ok || s.Queued() || s.Layout == "outrider" {
			continue
		}
		pool, err := o.openPostgres(ctx, name, s)
		if err != nil {
			return done, fmt.Errorf("source %q: %w", name, err)
		}
		did, err := logtable.InitIndexes(ctx, pool, logTable(s), func(text string) { say("source " + name + ": " + text) })
		pool.Close()
		for _, d := range did {
			done = append(done, fmt.Sprintf("source %s: %s", name, d))
		}
		if err != nil {
			return done, fmt.Errorf("source %q: %w", name, err)
		}
	}
	return done, nil
}

func initPostgres(ctx context.Context, o *options, name string, s *config.Postgres) ([]string, error) {
	pool, err := o.openPostgres(ctx, name, s)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	if s.Queued() {
		cfg := queueConfig(s)
		return queuetable.Init(ctx, pool, cfg.Layout, s.Layout == "flowcatalyst", cfg.Tables...)
	}
	if s.Layout != "outrider" {
		return logtable.Init(ctx, pool, logTable(s))
	}
	if rows := partitionRows(s); rows > 0 {
		return postgres.InitPartitioned(ctx, pool, string(s.Table), rows)
	}
	return postgres.Init(ctx, pool, string(s.Table))
}

func initSQLite(ctx context.Context, s *config.SQLite) ([]string, error) {
	if s.Layout == "custom" {
		name, err := sqlite.File(s.Path)
		if err == nil && name != "" {
			_, err = os.Stat(name)
		}
		if err != nil {
			return nil, fmt.Errorf("the database cannot be opened: %w; its application creates it", err)
		}
	}
	db, err := sqlite.Open(s.Path)
	if err != nil {
		return nil, err
	}
	var did []string
	if s.Layout == "custom" {
		did, err = sqlite.InitMapped(ctx, db, string(s.Table), sqliteColumns(s))
	} else {
		did, err = sqlite.Init(ctx, db, string(s.Table))
	}
	return did, errors.Join(err, db.Close())
}

// Publish writes messages to the outbox table of a source, in a transaction of
// its own: for trying things out and for scripts. Applications publish in their
// own transactions, with outbox.Client. It connects by the source's url.
func Publish(ctx context.Context, cfg *Config, source string, messages ...outbox.Envelope) error {
	var err error
	switch s := cfg.Sources[source].(type) {
	case *config.Postgres:
		err = publishPostgres(ctx, source, s, messages)
	case *config.SQLite:
		err = publishSQLite(ctx, s, messages)
	case nil:
		return fmt.Errorf("the configuration has no source %q; it has %v", source, sortedNames(cfg.Sources))
	default:
		return fmt.Errorf("source %q has type %s, which has no outbox table to write to", source, s.Kind())
	}
	if err != nil {
		return fmt.Errorf("source %q: %w", source, err)
	}
	return nil
}

func publishPostgres(ctx context.Context, name string, s *config.Postgres, messages []outbox.Envelope) error {
	if s.Layout != "outrider" {
		return fmt.Errorf("its table has layout %s: write to it as the application does", s.Layout)
	}
	o := optionsOf(nil)
	pool, err := o.openPostgres(ctx, name, s)
	if err != nil {
		return err
	}
	defer pool.Close()
	table, err := postgres.Locate(ctx, pool, string(s.Table))
	if err != nil {
		return err
	}
	client, err := outbox.NewClient(outbox.ClientConfig{Table: strings.Join(table, "."), Dialect: outbox.PostgreSQL})
	if err != nil {
		return err
	}
	tx, err := pool.Begin(ctx)
	if err != nil {
		return fmt.Errorf("begin a transaction: %w", err)
	}
	if err := client.Publish(ctx, tx, messages...); err != nil {
		return errors.Join(err, tx.Rollback(ctx))
	}
	return tx.Commit(ctx)
}

func publishSQLite(ctx context.Context, s *config.SQLite, messages []outbox.Envelope) error {
	if s.Layout != "outrider" {
		return fmt.Errorf("its table has layout %s: write to it as the application does", s.Layout)
	}
	client, err := outbox.NewClient(outbox.ClientConfig{Table: string(s.Table), Dialect: outbox.SQLite})
	if err != nil {
		return err
	}
	if err := databaseExists(s.Path); err != nil {
		return err
	}
	db, err := sqlite.Open(s.Path)
	if err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return errors.Join(fmt.Errorf("begin a transaction: %w", err), db.Close())
	}
	if err := client.Publish(ctx, tx, messages...); err != nil {
		return errors.Join(err, tx.Rollback(), db.Close())
	}
	return errors.Join(tx.Commit(), db.Close())
}

func sortedNames[T any](m map[string]T) []string {
	out := make([]string, 0, len(m))
	for name := range m {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}
