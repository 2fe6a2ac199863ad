package pg

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// oldestServer is the oldest PostgreSQL with snapshots of 64-bit transaction ids.
const oldestServer = 130000

// CheckServer refuses servers that cannot be read from.
func CheckServer(ctx context.Context, q Querier) error {
	var version int
	var name string
	var recovering bool
	err := q.QueryRow(ctx, `SELECT current_setting('server_version_num')::int,
		current_setting('server_version'), pg_is_in_recovery()`).Scan(&version, &name, &recovering)
	switch {
	case err != nil:
		return err
	case version < oldestServer:
		return fmt.Errorf("the server is PostgreSQL %s; version 13 or later is needed", name)
	case recovering:
		return ErrStandby
	}
	return nil
}

// CheckSubscribed refuses a table that a logical subscription writes: its rows have transaction numbers of the publisher.
func CheckSubscribed(ctx context.Context, q Querier, table string) error {
	var subscribed bool
	err := q.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_subscription_rel r WHERE r.srrelid = $1::text::regclass
		OR r.srrelid IN (SELECT t.relid FROM pg_partition_tree($1::text::regclass) t))`, table).Scan(&subscribed)
	if err == nil && subscribed {
		err = errors.New("a logical subscription writes its rows, with transaction numbers of the publisher, by which a late commit cannot be found here, " +
			"so that rows would be lost unnoticed; run Outrider on the publisher, or, if this server takes its place, drop the subscription")
	}
	return err
}

// Querier is a pool or a transaction.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// ErrStandby is what is wrong with reading from a standby.
var ErrStandby = errors.New("the server is a standby, whose snapshots do not list running transactions; " +
	"connect to the primary (with several hosts in the URL: target_session_attrs=read-write)")

// ReadOnlyFix follows the error of a write that a read-only transaction refused, which does not say why it was one.
const ReadOnlyFix = "; a standby takes no writes: name the primary. On the primary the role's transactions are read-only: " +
	"ALTER ROLE ... SET default_transaction_read_only = off"

// ErrSequenceGrant is what is wrong with a sequence that cannot be read.
func ErrSequenceGrant(sequence string) error {
	return fmt.Errorf("its sequence cannot be read: GRANT SELECT ON SEQUENCE %s to the role that Outrider connects as", sequence)
}

// TableColumn is a column as the catalogue has it.
type TableColumn struct {
	Name       string
	OID        uint32 // of its type, or of the type that a domain is of
	Type       string // as it was declared
	Plain      string // the type of OID for a cast, without modifiers
	Cut        string // the same with modifiers: a cast to it cuts what is too long
	Enum       bool
	Folded     bool // texts that differ may count as equal
	Generated  bool
	NotNull    bool
	Unique     bool // alone in a unique index
	Expression string
	Identity   bool // the server numbers its rows
}

// TableColumns reads the columns of a table by its quoted name. A table that is missing
// is the server's own error. Without a modifier (NULL) format_type names char(n) as character, which a cast takes for
// character(1); with -1 it is bpchar, of any length.
func TableColumns(ctx context.Context, q Querier, table string) (map[string]TableColumn, error) {
	rows, err := q.Query(ctx, `
		SELECT a.attname, b.oid, format_type(a.atttypid, a.atttypmod), format_type(b.oid, -1), format_type(b.oid, b.mod), b.enum,
		       NOT coalesce(l.collisdeterministic, true), a.attgenerated = 's', a.attnotnull,
		       EXISTS (SELECT FROM pg_index i WHERE i.indrelid = a.attrelid AND i.indisunique AND i.indisvalid
		               AND i.indpred IS NULL AND i.indnkeyatts = 1 AND i.indkey[0] = a.attnum),
		       coalesce(pg_get_expr(d.adbin, d.adrelid), ''), a.attidentity <> ''
		FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
		LEFT JOIN pg_collation l ON l.oid = a.attcollation
		CROSS JOIN LATERAL (
		    WITH RECURSIVE of AS (
		        SELECT a.atttypid AS oid, a.atttypmod AS mod
		        UNION ALL SELECT t.typbasetype, t.typtypmod FROM of JOIN pg_type t ON t.oid = of.oid AND t.typtype = 'd')
		    SELECT of.oid, of.mod, t.typtype = 'e' AS enum FROM of JOIN pg_type t ON t.oid = of.oid AND t.typtype <> 'd'
		) b
		WHERE a.attrelid = $1::text::regclass AND a.attnum > 0 AND NOT a.attisdropped`, table)
	if err != nil {
		return nil, err
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[TableColumn])
	byName := make(map[string]TableColumn, len(found))
	for _, c := range found {
		byName[c.Name] = c
	}
	return byName, err
}

// TableIndex is a valid B-tree index whose columns all ascend.
type TableIndex struct {
	Columns   []string // of its key; for an expression what [IndexExpression] returns
	Unique    bool
	Predicate string // "": it has all rows
}

// TableIndexes reads the indexes of a table by its quoted name.
func TableIndexes(ctx context.Context, q Querier, table string) ([]TableIndex, error) {
	rows, err := q.Query(ctx, `
		SELECT ARRAY(SELECT coalesce(a.attname::text, '=' || pg_get_indexdef(i.indexrelid, k.n::int, false))
		             FROM unnest(i.indkey::int2[]) WITH ORDINALITY AS k(attnum, n)
		             LEFT JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
		             WHERE k.n <= i.indnkeyatts ORDER BY k.n)::text[], i.indisunique, coalesce(pg_get_expr(i.indpred, i.indrelid), '')
		FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am m ON m.oid = c.relam
		WHERE i.indrelid = $1::text::regclass AND i.indisvalid AND m.amname = 'btree' AND 0 = ALL (i.indoption::int2[])`, table)
	if err != nil {
		return nil, err
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[TableIndex])
	for _, index := range found {
		for i, column := range index.Columns {
			if expression, ok := strings.CutPrefix(column, "="); ok {
				index.Columns[i] = IndexExpression(expression)
			}
		}
	}
	return found, err
}

// casts are what the server adds to an expression that it shows.
var casts = regexp.MustCompile(`::("[^"]*"|[a-z][a-z ]*[a-z]|text)(\([0-9]+\))?`)

// IndexExpression is an expression in a form in which that which was written and that which the server shows are equal: without
// casts, parentheses, quotes, white space and capital letters. It begins with "=", and is never the name of a column that we have.
func IndexExpression(text string) string {
	return "=" + strings.ToLower(strings.NewReplacer("(", "", ")", "", " ", "", "\n", "", `"`, "").Replace(casts.ReplaceAllString(text, "")))
}

// Serves reports whether the index has all rows of the table by just these columns.
func (i *TableIndex) Serves(columns []string) bool {
	return i.Predicate == "" && slices.Equal(i.Columns, columns)
}

// PlainExpression takes out of an expression what servers write differently
// when they show it: parentheses, casts of constants, case, spaces and the schema
// that everybody has.
func PlainExpression(e string) string {
	return strings.NewReplacer("operator(pg_catalog.&)", "&", "pg_catalog.", "", "(", "", ")", "", " ", "", "::bigint", "", "::smallint", "").
		Replace(strings.ToLower(e))
}
