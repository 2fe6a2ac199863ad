package logtable

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
)

// InitIndexes creates the indexes that reading a table of the application needs
// and that it lacks, without stopping writers. say is called before each, because
// one on a large table takes minutes. It returns what it did, a sentence each.
func InitIndexes(ctx context.Context, pool *pgxpool.Pool, cfg Config, say func(string)) ([]string, error) {
	m, err := newMapping(&cfg)
	if err != nil {
		return nil, err
	}
	var did []string
	err = func() error {
		var missing []logIndex
		err := pg.BeginPinned(ctx, pool, func(tx pgx.Tx) (err error) {
			if m.table, _, err = pg.Locate(ctx, tx.Conn(), m.table); err != nil {
				return err
			}
			if _, err := m.sound(ctx, tx); err != nil {
				return err
			}
			missing, err = m.missingIndexes(ctx, tx)
			return err
		})
		for _, i := range missing {
			name := pg.Beside(m.table, m.indexName(i)).Sanitize()
			say(fmt.Sprintf("creating index %s; on a large table this takes minutes; writers are not blocked", name))
			if err := pg.CreateIndex(ctx, pool, name, m.create(i)); err != nil {
				return fmt.Errorf("index %s: %w", name, err)
			}
			did = append(did, "created index "+name)
		}
		if err == nil && len(missing) == 0 {
			did = append(did, fmt.Sprintf("table %s has the indexes that reading needs", m.table.Sanitize()))
		}
		return err
	}()
	return did, explainLog(m.table.Sanitize(), "create its indexes", err)
}

// missingIndexes are those that reading needs and the table has not.
func (m *mapping) missingIndexes(ctx context.Context, q pg.Querier) (missing []logIndex, err error) {
	var kind string
	if err := q.QueryRow(ctx, "SELECT relkind::text FROM pg_class WHERE oid = $1::text::regclass", m.table.Sanitize()).Scan(&kind); err != nil {
		return nil, err
	}
	if kind != "r" && kind != "p" {
		return nil, errNoTable
	}
	have, err := pg.TableIndexes(ctx, q, m.table.Sanitize())
	if err != nil {
		return nil, err
	}
	for _, want := range m.indexes() {
		// The unique index of a partitioned table cannot be on the position alone, unless
		// it is partitioned by it; there another one will do.
		serves := func(i pg.TableIndex) bool {
			return i.Serves(want.columns) && (i.Unique || !want.unique || kind == "p")
		}
		if !slices.ContainsFunc(have, serves) {
			missing = append(missing, want)
		}
	}
	return missing, nil
}
