package owntable

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
	"github.com/outriderhq/outrider/adapters/postgres/internal/reader"
)

// Check implements [adapters.Source]. It reports everything that is wrong at
// once, each with its fix.
func (s *Source) Check(ctx context.Context) error {
	err := pg.CheckSessions(ctx, s.base.Pool)
	if err == nil {
		err = pg.CheckServer(ctx, s.base.Pool)
	}
	if err == nil {
		err = s.base.Find(ctx)
	}
	if err != nil {
		return s.base.Explain("check", err)
	}
	return s.base.Explain("check", errors.Join(checkLayout(ctx, s.base.Pool, s.layout), s.checkAccess(ctx), pg.CheckSubscribed(ctx, s.base.Pool, s.base.Quoted)))
}

// checkLayout compares the table with the layout. A missing table is the
// server's own error, for explain.
func checkLayout(ctx context.Context, q pg.Querier, l layout) error {
	missing, err := checkColumns(ctx, q, l)
	if err != nil {
		return err
	}
	indexes, err := checkIndexes(ctx, q, l)
	if err != nil {
		return err
	}
	return errors.Join(missing, indexes)
}

// checkShape refuses a table of another shape, if there is one, before an index
// on columns that it does not have is tried.
func checkShape(ctx context.Context, q pg.Querier, l layout) error {
	var exists bool
	if err := q.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", l.table).Scan(&exists); err != nil || !exists {
		return err
	}
	problems, err := checkColumns(ctx, q, l)
	if err != nil || problems == nil {
		return err
	}
	return fmt.Errorf("there is a table of this name in another shape; give another name, or, if it is the application's own, "+
		"describe it with layout: custom (or watermill): %w", problems)
}

// checkColumns compares the columns; problems are what it found, err is what
// kept it from looking.
func checkColumns(ctx context.Context, q pg.Querier, l layout) (problems, err error) {
	byName, err := pg.TableColumns(ctx, q, l.table)
	if err != nil {
		return nil, err
	}
	for _, want := range slices.Concat(keyColumns, fetchColumns) {
		got, ok := byName[want.name]
		switch {
		case !ok:
			problems = errors.Join(problems, fmt.Errorf("column %s is missing; add it as: %s", want.name, l.definition(want)))
		case got.OID != want.oid:
			problems = errors.Join(problems, fmt.Errorf("column %s is %s; the layout has: %s", want.name, got.Type, l.definition(want)))
		case want.name == "slot" && (!got.Generated || pg.PlainExpression(got.Expression) != pg.PlainExpression(slotExpression)):
			problems = errors.Join(problems, fmt.Errorf("column slot must be GENERATED ALWAYS AS %s STORED; "+
				"it cannot be changed in place, so create a new table with \"outrider init\"", slotExpression))
		}
	}
	return problems, nil
}

// checkIndexes looks for the two indexes that the fetch's plan is made of.
func checkIndexes(ctx context.Context, q pg.Querier, l layout) (problems, err error) {
	indexes, err := pg.TableIndexes(ctx, q, l.table)
	if err != nil {
		return nil, err
	}
	for _, want := range [][]string{{"slot", "position"}, {"slot", "xid", "position"}} {
		if slices.ContainsFunc(indexes, func(have pg.TableIndex) bool { return have.Serves(want) }) {
			continue
		}
		columns := strings.Join(want, ", ")
		problems = errors.Join(problems, fmt.Errorf("a valid index on (%s) is missing: CREATE INDEX CONCURRENTLY ON %s (%s)", columns, l.table, columns))
	}
	return problems, nil
}

// checkAccess checks whether the connected role may read what it must, and
// whether positions come in the order that they are handed out. It says
// nothing of a table that is missing: checkLayout does.
func (s *Source) checkAccess(ctx context.Context) error {
	const q = `
SELECT q.seqcache, coalesce(has_sequence_privilege(q.seqrelid, 'SELECT'), false)
FROM (SELECT to_regclass($1)::oid AS oid) t
LEFT JOIN pg_depend d ON d.refobjid = t.oid AND d.refclassid = 'pg_class'::regclass
     AND d.classid = 'pg_class'::regclass AND d.deptype IN ('i', 'a')
     AND d.refobjsubid = (SELECT a.attnum FROM pg_attribute a WHERE a.attrelid = t.oid AND a.attname = 'position')
LEFT JOIN pg_sequence q ON q.seqrelid = d.objid
WHERE t.oid IS NOT NULL
ORDER BY q.seqrelid NULLS LAST LIMIT 1`
	var cache *int64
	var sequence bool
	err := s.base.Pool.QueryRow(ctx, q, s.base.Quoted).Scan(&cache, &sequence)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	problems, role, err := pg.RoleProblems(ctx, s.base.Pool, s.base.Quoted, s.layout.grants(""))
	if err != nil {
		return err
	}
	switch {
	case cache == nil:
		problems = append(problems, reader.ErrNoSequence)
	case *cache != 1:
		problems = append(problems, fmt.Errorf("its sequence hands out %d positions at a time to a session, which inverts groups: ALTER TABLE %s ALTER COLUMN position SET CACHE 1",
			*cache, s.base.Quoted))
	case !sequence:
		problems = append(problems, fmt.Errorf("role %s: %w", role, pg.ErrSequenceGrant(s.layout.sequence)))
	}
	return errors.Join(problems...)
}
