package assembly

import (
	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/logtable"
	"github.com/outriderhq/outrider/adapters/postgres/queuetable"
)

// logTable describes an append-only table that is not of the own layout, without how
// to connect to it.
func (t postgresTable) logTable() logtable.Config {
	c := t.Columns
	return logtable.Config{
		Layout: logtable.Layout(t.Layout), Table: string(t.Table), Topic: t.Topic,
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
	cfg.Layout, cfg.Tables = queueOf(t.Preset(), t.Queue, string(t.Table), t.Tables, t.Deletes(), t.Retention != nil)
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

// retention is what the configuration says of the table's retention; nil: rows stay.
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
