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
// reading needs, and the columns of a captured one; for the grants see [Grants]. The table itself is the
// application's: Outrider creates and changes nothing else of it.
func InitSQL(cfg Config) (string, error) {
	m, err := newMapping(&cfg)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	table := m.table.Sanitize()
	if m.captured() {
		fmt.Fprintf(&b, "-- Table %s (layout %s) belongs to the application. `outrider init` adds two columns to it,\n"+
			"-- without writing it again, as here. Rows that are there have no position and are not read. Run\n"+
			"-- this as the owner of the table.\nBEGIN;\n%sCOMMIT;\n-- Reading", table, m.layout, m.addColumns(""))
	} else {
		fmt.Fprintf(&b, "-- Table %s (layout %s) belongs to the application: Outrider only reads it, and\n"+
			"-- `outrider init` creates nothing of it. Reading", table, m.layout)
	}
	b.WriteString(" needs these indexes, unless there are\n" +
		"-- some on the same columns already. CONCURRENTLY does not stop writers, and cannot\n" +
		"-- run inside a transaction.\n")
	for _, i := range m.indexes() {
		if m.preset != nil && m.preset.PositionKey && !i.unique {
			fmt.Fprintf(&b, "-- The primary key serves %s.\n", i.why)
			continue
		}
		fmt.Fprintf(&b, "-- %s\n%s;\n", strings.ToUpper(i.why[:1])+i.why[1:]+":", m.create(i))
	}
	return b.String(), nil
}

// addColumns are the statements that give a table a position and a transaction. The columns can be NULL and get their defaults after
// they were added, so that only the catalogue changes. All of it is one transaction under one lock: rows that are written later
// have both, and rows from before were committed. owner is the owner of the table, to whom its sequence must belong; empty: the role that
// runs them.
func (m *mapping) addColumns(owner string) string {
	if owner != "" {
		owner = "ALTER SEQUENCE {sequence} OWNER TO " + owner + ";\n"
	}
	sequence := pg.Beside(m.table, pg.DerivedName(m.table, "_"+m.columns[rolePosition]+"_seq")).Sanitize()
	return strings.NewReplacer("{table}", m.table.Sanitize(), "{sequence}", sequence, "{literal}", pg.Literal(sequence),
		"{position}", m.quoted(rolePosition), "{xid}", m.quoted(roleXID),
		"{check}", pgx.Identifier{pg.DerivedName(m.table, "_xid_set")}.Sanitize()).Replace(strings.Replace(`SET LOCAL lock_timeout = '5s';
CREATE SEQUENCE {sequence};
-- Every role that inserts rows draws positions. That others can too, costs only numbers.
GRANT USAGE ON SEQUENCE {sequence} TO PUBLIC;
ALTER TABLE {table} ADD COLUMN {position} bigint, ADD COLUMN {xid} xid8,
    ALTER COLUMN {position} SET DEFAULT nextval({literal}),
    ALTER COLUMN {xid} SET DEFAULT pg_catalog.pg_current_xact_id(),
    ADD CONSTRAINT {check} CHECK ({xid} IS NOT NULL) NOT VALID;
{owner}ALTER SEQUENCE {sequence} OWNED BY {table}.{position};
`, "{owner}", owner, 1))
}

// addMissing adds the columns that a captured table has not, and reports whether it did.
func (m *mapping) addMissing(ctx context.Context, tx pgx.Tx) (bool, error) {
	t, err := m.describe(ctx, tx)
	if err != nil || !m.captured() {
		return false, err
	}
	if _, ok := t.found[m.columns[rolePosition]]; ok {
		return false, nil
	}
	var owner string
	if err := tx.QueryRow(ctx, "SELECT quote_ident(pg_get_userbyid(relowner)) FROM pg_class WHERE oid = $1::text::regclass", m.table.Sanitize()).Scan(&owner); err != nil {
		return false, err
	}
	_, err = tx.Exec(ctx, m.addColumns(owner), pgx.QueryExecModeSimpleProtocol)
	return err == nil, err
}

// Init looks whether a table of the application has what reading needs. It
// creates nothing, except for the columns of a captured table: what is missing is an error with the statements.
func Init(ctx context.Context, pool *pgxpool.Pool, cfg Config) ([]string, error) {
	m, err := newMapping(&cfg)
	if err != nil {
		return nil, err
	}
	table := m.table.Sanitize()
	said := fmt.Sprintf("table %s belongs to the application (layout %s): init does not create it", table, m.layout)
	added := false
	err = pg.BeginPinned(ctx, pool, func(tx pgx.Tx) error {
		if m.table, _, err = pg.Locate(ctx, tx.Conn(), m.table); err != nil {
			return err
		}
		added, err = m.addMissing(ctx, tx)
		return err
	})
	did := []string{said}
	if added {
		did = append(did, fmt.Sprintf("added the columns %s and %s to table %s; rows that were there have no position and are not read",
			m.quoted(rolePosition), m.quoted(roleXID), table))
		var indexes []string
		if indexes, err = InitIndexes(ctx, pool, cfg, func(string) {}); err == nil {
			did = append(did, indexes...)
		}
	}
	if err == nil {
		err = pg.BeginPinned(ctx, pool, func(tx pgx.Tx) error { return m.check(ctx, tx) })
	}
	if err != nil {
		return did, explainLog(table, "init does not create it, and what reading needs is missing", err)
	}
	return append(did, "table "+table+" has what reading needs"), nil
}
