package logtable

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
)

// create returns the statement that makes the index without stopping writers.
func (m *mapping) create(i logIndex) string {
	kind := "INDEX"
	if i.unique {
		kind = "UNIQUE INDEX"
	}
	names := make([]string, len(i.columns))
	for n, c := range i.columns {
		names[n] = pgx.Identifier{c}.Sanitize()
	}
	return fmt.Sprintf("CREATE %s CONCURRENTLY %s ON %s (%s)",
		kind, pgx.Identifier{m.indexName(i)}.Sanitize(), m.table.Sanitize(), strings.Join(names, ", "))
}

// indexName is the name that an index is created by.
func (m *mapping) indexName(i logIndex) string {
	suffix := "_outrider_" + strings.Join(i.columns, "_")
	if len(suffix) > pg.LongestName/2 { // the columns' names are too long for a name
		suffix = fmt.Sprintf("_outrider_%d", len(i.columns))
	}
	return pg.DerivedName(m.table, suffix+"_idx")
}

// InitSQL returns, for a table that [Source] reads, the indexes that
// reading needs; for the grants see [Grants]. The table itself is the
// application's: Outrider creates and changes nothing of it.
func InitSQL(cfg Config) (string, error) {
	m, err := newMapping(&cfg)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	table := m.table.Sanitize()
	fmt.Fprintf(&b, "-- Table %s (layout %s) belongs to the application: Outrider only reads it, and\n"+
		"-- `outrider init` creates nothing of it. Reading needs these indexes, unless there are\n"+
		"-- some on the same columns already. CONCURRENTLY does not stop writers, and cannot\n"+
		"-- run inside a transaction.\n", table, m.layout)
	for _, i := range m.indexes() {
		if m.preset != nil && m.preset.PositionKey && !i.unique {
			fmt.Fprintf(&b, "-- The primary key serves %s.\n", i.why)
			continue
		}
		fmt.Fprintf(&b, "-- %s\n%s;\n", strings.ToUpper(i.why[:1])+i.why[1:]+":", m.create(i))
	}
	return b.String(), nil
}

// Init looks whether a table of the application has what reading needs. It
// creates nothing: what is missing is an error with the statements.
func Init(ctx context.Context, pool *pgxpool.Pool, cfg Config) ([]string, error) {
	m, err := newMapping(&cfg)
	if err != nil {
		return nil, err
	}
	table := m.table.Sanitize()
	said := fmt.Sprintf("table %s belongs to the application (layout %s): init does not create it", table, m.layout)
	err = pg.BeginPinned(ctx, pool, func(tx pgx.Tx) error {
		if m.table, _, err = pg.Locate(ctx, tx.Conn(), m.table); err != nil {
			return err
		}
		return m.check(ctx, tx)
	})
	if err != nil {
		return []string{said}, explainLog(table, "init does not create it, and what reading needs is missing", err)
	}
	return []string{said, "table " + table + " has what reading needs"}, nil
}
