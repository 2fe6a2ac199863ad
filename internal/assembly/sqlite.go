package assembly

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/sqlite"
	"github.com/outriderhq/outrider/adapters/sqlite/owntable"
	"github.com/outriderhq/outrider/adapters/sqlite/queuetable"
	"github.com/outriderhq/outrider/adapters/sqlite/statestore"
	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/outbox"
)

// sqliteTable is a source in a SQLite file: a table of Outrider's own or of others.
type sqliteTable struct {
	site
	*config.SQLite
}

// sqliteSource is the kind of a source in a SQLite file.
func sqliteSource(at site, s *config.SQLite) SourceKind {
	t := sqliteTable{at, s}
	k := SourceKind{Log: !s.Queued(), Queue: s.Queued(), Open: t.open, Init: t.init, InitSQL: t.initSQL, Publish: t.publish,
		Read: s.Layout == "outrider" || t.Preset() != nil && t.Preset().Hot}
	if r := s.Retention; r != nil {
		k.Retention = &RetentionSettings{adapters.Retention{Mode: adapters.RetainRows, Keep: r.Keep.Std(), Batch: r.Batch},
			r.Every.Std(), r.WarnAfter.Std()}
	}
	return k
}

func (t sqliteTable) open(context.Context) (Feed, error) {
	if err := sqliteExists(t.Path); err != nil {
		return Feed{}, err
	}
	if t.Queued() {
		return t.openQueue()
	}
	cfg := owntable.Config{Path: t.Path, Table: string(t.Table), Logger: t.log, MaxRow: int64(t.MaxRow)}
	if t.Layout == "custom" {
		columns := t.columns()
		cfg.Columns = &columns
	}
	src, err := owntable.New(cfg)
	if err != nil {
		return Feed{}, err
	}
	return Feed{Source: src, poll: t.Poll}, nil
}

// columns describes a table that is not of the own layout.
func (t sqliteTable) columns() owntable.Columns {
	c := t.Columns
	return owntable.Columns{
		Position: string(c.Position), ID: string(c.ID), Payload: string(c.Payload), Type: string(c.Type),
		Group: string(c.Group), AggregateType: string(c.AggregateType), AggregateID: string(c.AggregateID), Tenant: string(c.Tenant),
		Headers: string(c.Headers), Tags: string(c.Tags), OccurredAt: string(c.OccurredAt), CreatedAt: string(c.CreatedAt),
	}
}

func (t sqliteTable) init(ctx context.Context) ([]string, error) {
	if t.Layout == "custom" {
		name, err := sqlite.File(t.Path)
		if err == nil && name != "" {
			_, err = os.Stat(name)
		}
		if err != nil {
			return nil, fmt.Errorf("the database cannot be opened: %w; its application creates it", err)
		}
	}
	db, err := sqlite.Open(t.Path)
	if err != nil {
		return nil, err
	}
	var did []string
	switch {
	case t.Queued():
		cfg := t.queue()
		did, err = queuetable.Init(ctx, db, cfg.Layout, t.Preset() != nil, cfg.Tables...)
	case t.Layout == "custom":
		did, err = owntable.InitMapped(ctx, db, string(t.Table), t.columns())
	default:
		did, err = owntable.Init(ctx, db, string(t.Table))
	}
	return did, errors.Join(err, db.Close())
}

func (t sqliteTable) initSQL(Grantees) string {
	if t.Queued() {
		cfg := t.queue()
		return queuetable.InitSQL(cfg.Layout, t.Preset() != nil, cfg.Tables...)
	}
	if t.Layout == "custom" {
		return "-- Nothing: the table " + string(t.Table) + " is its application's, and needs no index.\n"
	}
	return owntable.InitSQL(string(t.Table))
}

func (t sqliteTable) publish(ctx context.Context, messages []outbox.Envelope) error {
	if t.Layout != "outrider" {
		return notOwnTable(t.Layout)
	}
	client, err := outbox.NewClient(outbox.ClientConfig{Table: string(t.Table), Dialect: outbox.SQLite})
	if err != nil {
		return err
	}
	if err := sqliteExists(t.Path); err != nil {
		return err
	}
	db, err := sqlite.Open(t.Path)
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

// sqliteExists refuses the path of a SQLite file that is not there: opening it
// would leave an empty database where a name was mistyped.
func sqliteExists(path string) error {
	name, err := sqlite.File(strings.TrimPrefix(path, "sqlite:"))
	if err != nil || name == "" {
		return err
	}
	if _, err := os.Stat(name); err != nil {
		return fmt.Errorf("the database cannot be opened: %w; `outrider init` creates it", err)
	}
	return nil
}

// sqliteDatabase is an SQLite file.
var sqliteDatabase = database{state: sqliteState}

func sqliteState(_ *Builder, location string) StateKind {
	return StateKind{
		Key:    sqliteKey(location),
		Exists: func() error { return sqliteExists(location) },
		Open: func(ctx context.Context) (adapters.OperatorStore, error) {
			return statestore.New(ctx, statestore.Config{Path: strings.TrimPrefix(location, "sqlite:")})
		},
		InitSQL: func(Grantees) (string, error) {
			return "-- Nothing: `outrider init` or `outrider run` creates the tables in the SQLite file, which has no roles.\n", nil
		},
	}
}

// sqliteKey is the path of a file in one form: it has one store, however its path is
// written.
func sqliteKey(location string) string {
	name, err := sqlite.File(strings.TrimPrefix(location, "sqlite:"))
	if err != nil || name == "" {
		return location
	}
	if resolved, err := filepath.EvalSymlinks(name); err == nil {
		name = resolved
	}
	if absolute, err := filepath.Abs(name); err == nil {
		name = absolute
	}
	return name
}

// openQueue opens tables whose rows carry a status.
func (t sqliteTable) openQueue() (Feed, error) {
	cfg := t.queue()
	cfg.Path, cfg.Logger = t.Path, t.log
	state, err := t.StateOf(t.name)
	if err != nil {
		return Feed{}, err
	}
	cfg.Fenced = state.Key == sqliteKey(t.Path)
	queue, err := queuetable.New(cfg)
	if err != nil {
		return Feed{}, err
	}
	return queueFeed(&t.TableSource, len(cfg.Tables), queue), nil
}

// queue describes the tables of a queue, without where they are.
func (t sqliteTable) queue() queuetable.Config {
	cfg := queuetable.Config{Batch: t.Poll.Batch, Timeout: t.Claims.Timeout.Std(), MaxRow: int64(t.MaxRow)}
	cfg.Layout, cfg.Tables = queueOf(&t.TableSource, t.Retention != nil)
	return cfg
}
