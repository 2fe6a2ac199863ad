package outrider

import (
	"context"
	"log/slog"
	"strings"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres"
	"github.com/outriderhq/outrider/adapters/postgres/logtable"
	"github.com/outriderhq/outrider/adapters/postgres/queuetable"
	"github.com/outriderhq/outrider/adapters/sqlite"
	"github.com/outriderhq/outrider/config"
)

// newPostgresSource makes the source for the layout of its table.
func newPostgresSource(ctx context.Context, o *options, name string, s *config.Postgres, log *slog.Logger) (adapters.Source, error) {
	to, err := o.toSource(name, s)
	if err != nil {
		return nil, err
	}
	if s.Layout == "outrider" {
		return postgres.NewSource(ctx, postgres.SourceConfig{URL: to.url, TLS: to.tls, Config: to.config, Table: string(s.Table),
			Wake: postgres.Wake(s.Wake), Logger: log, MaxRow: int64(s.MaxRow)})
	}
	cfg := logTable(s)
	cfg.URL, cfg.TLS, cfg.Config = to.url, to.tls, to.config
	cfg.Wake, cfg.Logger, cfg.MaxRow = postgres.Wake(s.Wake), log, int64(s.MaxRow)
	return logtable.New(ctx, cfg)
}

// logTable describes a table that is not of the own layout.
func logTable(s *config.Postgres) logtable.Config {
	c := s.Columns
	return logtable.Config{
		Layout: logtable.Layout(s.Layout), Table: string(s.Table), Topic: s.Topic,
		Metadata: logtable.Metadata(s.Metadata),
		Columns: logtable.Columns{
			Position: string(c.Position), XID: string(c.XID), ID: string(c.ID), Payload: string(c.Payload),
			Type: string(c.Type), Group: string(c.Group), AggregateType: string(c.AggregateType),
			AggregateID: string(c.AggregateID), Tenant: string(c.Tenant), Headers: string(c.Headers),
			Tags: string(c.Tags), OccurredAt: string(c.OccurredAt), CreatedAt: string(c.CreatedAt),
		},
	}
}

// postgresInitSQL is what a source's table needs, for printing.
func postgresInitSQL(s *config.Postgres, to Grantees) string {
	if s.Queued() {
		cfg := queueConfig(s)
		return queuetable.InitSQL(cfg.Layout, s.Layout == "flowcatalyst", cfg.Tables...) + "\n" +
			queuetable.Grants(cfg.Layout, cfg.Tables...).SQL(to)
	}
	if s.Layout == "outrider" {
		text, mode := postgres.InitSQL(string(s.Table)), adapters.RetentionMode("")
		if s.Retention != nil {
			mode = adapters.RetentionMode(s.Retention.Mode)
		}
		if rows := partitionRows(s); rows > 0 {
			text = postgres.InitPartitionedSQL(string(s.Table), rows)
		}
		return text + "\n" + postgres.OutboxGrants(string(s.Table), mode).SQL(to)
	}
	text, err := logtable.InitSQL(logTable(s))
	var grants postgres.Grants
	if err == nil {
		grants, err = logtable.Grants(logTable(s))
	}
	if err != nil {
		return "-- " + strings.Join(strings.Fields(err.Error()), " ") + "\n" // not from a configuration that was checked
	}
	return text + "\n" + grants.SQL(to)
}

func newSQLiteSource(s *config.SQLite, log *slog.Logger) (adapters.Source, error) {
	cfg := sqlite.SourceConfig{Path: s.Path, Table: string(s.Table), Logger: log, MaxRow: int64(s.MaxRow)}
	if s.Layout == "custom" {
		columns := sqliteColumns(s)
		cfg.Columns = &columns
	}
	return sqlite.NewSource(cfg)
}

// sqliteColumns describes a table that is not of the own layout.
func sqliteColumns(s *config.SQLite) sqlite.Columns {
	c := s.Columns
	return sqlite.Columns{
		Position: string(c.Position), ID: string(c.ID), Payload: string(c.Payload), Type: string(c.Type),
		Group: string(c.Group), AggregateType: string(c.AggregateType), AggregateID: string(c.AggregateID), Tenant: string(c.Tenant),
		Headers: string(c.Headers), Tags: string(c.Tags), OccurredAt: string(c.OccurredAt), CreatedAt: string(c.CreatedAt),
	}
}

// sqliteInitSQL is what a source's table needs, for printing.
func sqliteInitSQL(s *config.SQLite) string {
	if s.Layout == "custom" {
		return "-- Nothing: the table " + string(s.Table) + " is its application's, and needs no index.\n"
	}
	return sqlite.InitSQL(string(s.Table))
}
