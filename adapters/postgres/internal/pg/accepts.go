package pg

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Accepts reports which values a column of a table, by its quoted name, does not take: its type has no such value or would cut it, or a
// CHECK of this column alone refuses it. Of a CHECK that calls functions of others, and so would run them here, nothing is said.
func Accepts(ctx context.Context, q Querier, table string, c TableColumn, values ...string) error {
	const checksSQL = `SELECT c.conname, pg_get_expr(c.conbin, c.conrelid) FROM pg_constraint c
JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attname = $2
WHERE c.conrelid = $1::text::regclass AND c.contype = 'c' AND c.conkey = ARRAY[a.attnum] AND NOT EXISTS (
    SELECT FROM pg_depend d WHERE d.classid = 'pg_constraint'::regclass AND d.objid = c.oid AND d.refclassid IN ('pg_proc'::regclass, 'pg_operator'::regclass))`
	rows, err := q.Query(ctx, checksSQL, table, c.Name)
	if err != nil {
		return err
	}
	whole := c.Plain
	if whole == `"char"` { // a cast to it is what cuts
		whole = "text"
	}
	refused := "CASE WHEN v.value::text <> ($1::text::" + whole + ")::text THEN 'its type, '||$2 END"
	var name, expression string
	_, err = pgx.ForEachRow(rows, []any{&name, &expression}, func() error {
		refused += ", CASE WHEN NOT (SELECT " + expression + " FROM (SELECT v.value AS " + QuoteName(c.Name) + ") " + QuoteName(c.Name+" ") + ") THEN " + Literal("CHECK "+name) + " END"
		return nil
	})
	if err != nil {
		return err
	}
	var problems []error
	for _, value := range values {
		var by []string
		err := q.QueryRow(ctx, "SELECT array_remove(ARRAY["+refused+"]::text[], NULL) FROM (SELECT $1::text::"+c.Cut+" AS value) v", value, c.Type).Scan(&by)
		if FailedWith(err, "22P02", "22001", "22003") {
			by, err = []string{"its type, " + c.Type}, nil
		}
		if err != nil {
			return err
		}
		if len(by) > 0 {
			problems = append(problems, fmt.Errorf("column %s does not take the value %q: %s refuses it; ALTER the table so that it does, or correct the value in the mapping",
				QuoteName(c.Name), value, strings.Join(by, ", ")))
		}
	}
	return errors.Join(problems...)
}
