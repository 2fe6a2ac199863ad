package assembly

import (
	"cmp"
	"context"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters/postgres"
	"github.com/outriderhq/outrider/adapters/postgres/logtable"
	"github.com/outriderhq/outrider/adapters/postgres/watermillsql"
	"github.com/outriderhq/outrider/outbox"
)

// openStock opens a table of watermill-sql that its own Subscriber reads.
func (t postgresTable) openStock(ctx context.Context) (f Feed, err error) {
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
