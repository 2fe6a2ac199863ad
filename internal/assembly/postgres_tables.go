package assembly

import (
	"cmp"
	"context"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/layout"
	"github.com/outriderhq/outrider/adapters/postgres"
	"github.com/outriderhq/outrider/adapters/postgres/logtable"
	"github.com/outriderhq/outrider/adapters/postgres/queuetable"
	"github.com/outriderhq/outrider/adapters/postgres/watermillsql"
	"github.com/outriderhq/outrider/outbox"
)

// logTable describes an append-only table that is not of the own layout, without how
// to connect to it.
func (t postgresTable) logTable() logtable.Config {
	c := t.Columns
	var headers []layout.Header
	for _, h := range t.Headers {
		headers = append(headers, layout.Header{Name: cmp.Or(h.Header, string(h.Column)), Column: string(h.Column)})
	}
	return logtable.Config{
		Headers: headers,
		Layout:  logtable.Layout(t.Layout), Table: string(t.Table), Topic: t.Topic,
		Offsets: string(t.Offsets), Group: t.Group,
		Metadata: logtable.Metadata(t.Metadata),
		Columns: logtable.Columns{
			Position: string(c.Position), XID: string(c.XID), ID: string(c.ID), Payload: string(c.Payload),
			Type: string(c.Type), Group: string(c.Group), AggregateType: string(c.AggregateType),
			AggregateID: string(c.AggregateID), Tenant: string(c.Tenant), Headers: string(c.Headers),
			Tags: string(c.Tags), OccurredAt: string(c.OccurredAt), CreatedAt: string(c.CreatedAt),
		},
	}
}

// queue describes the tables of a queue, without how to connect to them.
func (t postgresTable) queue() queuetable.Config {
	cfg := queuetable.Config{Batch: t.Poll.Batch, Timeout: t.Claims.Timeout.Std(), MaxRow: int64(t.MaxRow)}
	cfg.Layout, cfg.Tables = queueOf(&t.TableSource, t.Retention != nil)
	return cfg
}

// tables are the source's tables, as in SQL.
func (t postgresTable) tables() (tables []string, err error) {
	switch {
	case t.Queued():
		for _, table := range t.queue().Tables {
			tables = append(tables, table.Name)
		}
		return tables, nil
	case t.Layout == "outrider":
		return []string{string(t.Table)}, nil
	}
	name, err := logtable.Name(t.logTable())
	return []string{name}, err
}

// retention returns the settings of the table's retention; nil: rows stay.
func (t postgresTable) retention() *RetentionSettings {
	r := t.Retention
	if r == nil {
		return nil
	}
	return &RetentionSettings{adapters.Retention{Mode: adapters.RetentionMode(r.Mode), Keep: r.Keep.Std(), Batch: r.Batch,
		PartitionRows: int64(r.PartitionRows)}, r.Every.Std(), r.WarnAfter.Std()}
}

// partitionRows is how many positions each partition of the table has; 0: it has no
// partitions.
func (t postgresTable) partitionRows() int64 {
	if t.Retention == nil || t.Retention.Mode != string(adapters.RetainPartitions) {
		return 0
	}
	return int64(t.Retention.PartitionRows)
}

// openWatermillSQL opens a table of watermill-sql that its own Subscriber reads.
func (t postgresTable) openWatermillSQL(ctx context.Context) (f Feed, err error) {
	pool, err := t.Options.openPostgres(ctx, t.name, t.Postgres)
	if err != nil {
		return f, err
	}
	defer func() {
		if err != nil {
			pool.Close()
		}
	}()
	name, err := logtable.Name(t.logTable())
	if err != nil {
		return f, err
	}
	table, err := postgres.Locate(ctx, pool, name)
	if err != nil {
		return f, err
	}
	topic := cmp.Or(t.Topic, strings.TrimPrefix(table[len(table)-1], "watermill_"))
	offsets := append(append(pgx.Identifier{}, table[:len(table)-1]...), "watermill_offsets_"+strings.TrimPrefix(table[len(table)-1], "watermill_"))
	if t.Offsets != "" {
		if offsets, err = postgres.Locate(ctx, pool, string(t.Offsets)); err != nil {
			return f, err
		}
	}
	keys := t.Metadata
	sub, err := watermillsql.New(watermillsql.Config{Pool: pool, Table: table, Offsets: offsets, Group: t.Group, Type: topic,
		Keys: map[string]string{outbox.MetaType: keys.Type, outbox.MetaGroup: keys.Group, outbox.MetaAggregateType: keys.AggregateType,
			outbox.MetaAggregateID: keys.AggregateID, outbox.MetaTenant: keys.Tenant},
		Batch: t.Poll.Batch, Poll: t.Poll.Max.Std(), Logger: t.log.With("source", t.name)})
	if err != nil {
		return f, err
	}
	return Feed{subscriber: sub, topic: topic, maxRow: int64(t.MaxRow), close: sub.Close, examine: sub.Check}, nil
}
