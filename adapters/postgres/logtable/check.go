package logtable

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/sqltext"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
)

// sqlNames are the table and some of its columns, for statements.
func (m *mapping) sqlNames() sqltext.Names {
	return sqltext.Names{"table": m.table.Sanitize(), "position": m.quoted(rolePosition), "xid": m.quoted(roleXID), "id": m.quoted(roleID), "created": m.quoted(roleCreatedAt)}
}

// logIndex is an index that reading needs.
type logIndex struct {
	columns []string
	unique  bool
	why     string
}

func (m *mapping) indexes() []logIndex {
	position, xid := m.columns[rolePosition], m.columns[roleXID]
	return []logIndex{
		{[]string{position}, true, "to read what is new by position, and to find one row by it"},
		{[]string{xid, position}, false, "to find rows that were committed late"},
	}
}

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
		return s.explain("check", err)
	}
	return s.explain("check", s.mapping.check(ctx, s.base.Pool))
}

// check compares the table with the mapping.
func (m *mapping) check(ctx context.Context, q pg.Querier) error {
	t, err := m.describe(ctx, q)
	if err != nil {
		return err
	}
	if problems := t.problems(); problems != nil {
		return errors.Join(problems, m.checkAccess(ctx, q, t))
	}
	xid, err := t.checkXID(ctx, q)
	if err != nil {
		return err
	}
	indexes, err := m.checkIndexes(ctx, q)
	if err != nil {
		return err
	}
	return errors.Join(xid, indexes, m.checkAccess(ctx, q, t), pg.CheckSubscribed(ctx, q, m.table.Sanitize()))
}

// checkXID makes sure that no new row can come without its transaction: such a
// row would be lost if it was committed late.
func (t *logTable) checkXID(ctx context.Context, q pg.Querier) (problems, err error) {
	if t.found[t.columns[roleXID]].NotNull {
		return nil, nil
	}
	var checked bool
	err = q.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_constraint c WHERE c.conrelid = $1::text::regclass AND c.contype = 'c'
		AND lower(pg_get_expr(c.conbin, c.conrelid)) = lower(format('(%s IS NOT NULL)', $2::text)))`,
		t.table.Sanitize(), t.plainXID()).Scan(&checked)
	if err != nil || checked {
		return nil, err
	}
	check := pgx.Identifier{pg.DerivedName(t.table, "_xid_set")}.Sanitize()
	return fmt.Errorf("column %s may be null, and a row without its transaction could be lost; for new rows: ALTER TABLE %s ADD CONSTRAINT %s CHECK (%s IS NOT NULL) NOT VALID",
		t.quoted(roleXID), t.table.Sanitize(), check, t.quoted(roleXID)), nil
}

// plainXID is the column as the server writes it in an expression: quoted only
// where it must be.
func (t *logTable) plainXID() string {
	name := t.columns[roleXID]
	if parsed, err := pg.ParseTable(name); err == nil && len(parsed) == 1 && parsed[0] == name && !strings.HasPrefix(name, `"`) {
		return name
	}
	return t.quoted(roleXID)
}

// checkIndexes looks for the indexes that the fetch's plan is made of.
func (m *mapping) checkIndexes(ctx context.Context, q pg.Querier) (problems, err error) {
	missing, err := m.missingIndexes(ctx, q)
	if errors.Is(err, errNoTable) {
		return err, nil
	}
	for _, i := range missing {
		problems = errors.Join(problems, fmt.Errorf("an index is missing %s: run `outrider init --indexes`, or %s", i.why, m.create(i)))
	}
	return problems, err
}

// errNoTable is the error for a view.
var errNoTable = errors.New("it is not a table (but a view or a foreign table), so it cannot have the indexes that reading needs; name the table")

// checkAccess checks whether the connected role may read what it must, and, where
// positions come from a sequence, whether they come in order.
func (m *mapping) checkAccess(ctx context.Context, q pg.Querier, t *logTable) error {
	const sql = `
SELECT coalesce(t.sequence, ''), coalesce(q.seqcache, 1),
       coalesce(has_sequence_privilege(q.seqrelid, 'SELECT'), true)
FROM (SELECT pg_get_serial_sequence($1, $2) AS sequence) t
LEFT JOIN pg_sequence q ON q.seqrelid = t.sequence::regclass`
	if _, ok := t.found[m.columns[rolePosition]]; !ok {
		return nil
	}
	var readable bool
	var sequence string
	var cache int64
	err := q.QueryRow(ctx, sql, m.table.Sanitize(), m.columns[rolePosition]).Scan(&sequence, &cache, &readable)
	if err != nil {
		return err
	}
	problems, role, err := pg.RoleProblems(ctx, q, m.table.Sanitize(), m.grants())
	if err != nil {
		return err
	}
	if cache != 1 {
		problems = append(problems, fmt.Errorf("its sequence hands out %d positions at a time to a session, which inverts groups: ALTER SEQUENCE %s CACHE 1", cache, sequence))
	}
	if !readable {
		problems = append(problems, fmt.Errorf("role %s: %w", role, pg.ErrSequenceGrant(sequence)))
	}
	return errors.Join(problems...)
}

// Examine implements [adapters.Examiner].
func (s *Source) Examine(ctx context.Context) []adapters.Finding {
	ctx, cancel := context.WithTimeout(ctx, pg.ExaminePatience)
	defer cancel()
	pool := s.base.Pool
	f, reached := pg.ExamineServer(ctx, pool)
	if !reached {
		return f
	}
	f = append(f, pg.Judge("table "+s.base.Table, "its columns, indexes and privileges are as reading needs them", s.Check(ctx))...)
	f = append(f, pg.ExaminePooler(ctx, pool, "reading"), pg.ExamineClock(ctx, pool))
	f = append(f, s.base.Listening.Examine(ctx)...)
	if s.base.Find(ctx) != nil {
		return append(f, pg.ExamineOpen(ctx, pool)...)
	}
	f = append(f, pg.ExamineOwner(ctx, pool, s.base.Quoted)...)
	if s.mapping.captured() {
		f = append(f, s.examineDeletes(ctx)...)
	}
	return append(f, pg.ExamineSurroundings(ctx, pool, s.base.Quoted)...)
}
