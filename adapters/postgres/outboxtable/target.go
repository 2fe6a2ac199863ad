package outboxtable

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/pgtx"
	"github.com/outriderhq/outrider/adapters/layout"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
	"github.com/outriderhq/outrider/outbox"
)

// target is one table that is written to.
type target struct {
	cfg   *Config
	pool  *pgxpool.Pool  // for looks
	name  pgx.Identifier // as configured
	kind  string
	found atomic.Pointer[shape]
}

// shape is what was found out about a table, and how it is written to.
type shape struct {
	full  pgx.Identifier
	write writer
	wake  string // statement that wakes its reader; "": none

	// The unique index by which a repeated message is recognised, as the target of ON CONFLICT. Empty: the table keeps repeats.
	conflict string
}

// writer makes the statement that inserts rows of one table.
type writer interface {
	// statement returns it with its arguments. Where something is wrong with single records it is in errs, at their indexes,
	// and ok is false.
	statement(records []*record, errs []error) (text string, args []any, ok bool)

	// columns are those that it writes.
	columns() []string
}

// shape returns what is known of the table, which is found out once. An error is not the message's fault.
func (t *target) shape(ctx context.Context) (*shape, error) {
	if s := t.found.Load(); s != nil {
		return s, nil
	}
	s, err := t.look(ctx)
	if err != nil {
		return nil, pgtx.Classify(t.explain("look at the table", err), t.fixes())
	}
	t.found.Store(s)
	return s, nil
}

// look finds out what the table is like.
func (t *target) look(ctx context.Context) (*shape, error) {
	full, err := pg.LocateTable(ctx, t.pool, t.name)
	if err != nil {
		return nil, err
	}
	columns, err := pg.TableColumns(ctx, t.pool, full.Sanitize())
	if err != nil {
		return nil, err
	}
	indexes, err := pg.TableIndexes(ctx, t.pool, full.Sanitize())
	if err != nil {
		return nil, err
	}
	s := &shape{full: full}
	if t.cfg.Layout == Own {
		s.conflict = conflictTarget(indexes, "id", ownKnown)
		s.write, err = newOwnWriter(full, onConflict(s.conflict))
	} else {
		w := presetWriter{}
		w.of(layout.Find(t.cfg.Layout), t.kind, columns)
		s.conflict = conflictTarget(indexes, w.id, w.known)
		w.text = w.insert(full, onConflict(s.conflict))
		s.write = &w
	}
	if err != nil {
		return nil, err
	}
	if t.cfg.Notify {
		s.wake = wakeStatement(full[len(full)-1])
	}
	return s, t.fits(s, columns)
}

// fits says what keeps rows from being written.
func (t *target) fits(s *shape, columns map[string]pg.TableColumn) error {
	written := s.write.columns()
	var errs []error
	for _, name := range written {
		if _, ok := columns[name]; !ok {
			errs = append(errs, fmt.Errorf("it has no column %s", pg.QuoteName(name)))
		}
	}
	for name := range columns {
		c := columns[name]
		if c.NotNull && c.Expression == "" && !c.Generated && !c.Identity && !slices.Contains(written, name) {
			errs = append(errs, fmt.Errorf("its column %s needs a value, and layout %s has none for it", pg.QuoteName(name), t.cfg.Layout))
		}
	}
	if len(errs) == 0 {
		return nil
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return fmt.Errorf("the table %s is not of layout %s: %w", fullName(s.full), t.cfg.Layout, errors.Join(errs...))
}

// onConflict ends a statement of which repeated messages write nothing.
func onConflict(target string) string {
	if target == "" {
		return ""
	}
	return "\nON CONFLICT " + target + " DO NOTHING"
}

// conflictTarget is a unique index by which a repeated message is recognised: it has the event id, and beside it only columns
// whose values are the message's.
func conflictTarget(indexes []pg.TableIndex, id string, known []string) string {
	for _, index := range indexes {
		if !index.Unique || !slices.Contains(index.Columns, id) ||
			slices.ContainsFunc(index.Columns, func(c string) bool { return c != id && !slices.Contains(known, c) }) {
			continue
		}
		quoted := make([]string, len(index.Columns))
		for i, c := range index.Columns {
			quoted[i] = pg.QuoteName(c)
		}
		text := "(" + strings.Join(quoted, ", ") + ")"
		if index.Predicate != "" {
			text += " WHERE " + index.Predicate
		}
		return text
	}
	return ""
}

// wakeStatement wakes a relay that reads the table and sleeps.
func wakeStatement(table string) string {
	name := pg.Literal(table)
	return fmt.Sprintf("SELECT pg_catalog.pg_notify('%s', %s) WHERE NOT pg_catalog.pg_try_advisory_xact_lock_shared(pg_catalog.hashtextextended(%s, %d))",
		outbox.WakeChannel, name, name, outbox.WakeNamespace)
}

// refused gives an error of an insert its kind. The table is looked at again: its columns and indexes may have changed.
func (t *target) refused(ctx context.Context, s *shape, err error) error {
	t.found.CompareAndSwap(s, nil)
	err = t.explain("insert rows", err)
	if pg.FailedWith(err, "23505") {
		if now, lookErr := t.shape(ctx); lookErr == nil && now.conflict != s.conflict {
			return fmt.Errorf("%w: %w", adapters.ErrConflict, err) // by an index that is new: the next try knows it
		}
	}
	return pgtx.Classify(err, t.fixes())
}

func (t *target) explain(what string, err error) error {
	return fmt.Errorf("sql: %s: %s: %w", fullName(t.name), what, pg.Plainly(err))
}

func (t *target) fixes() pgtx.Fixes {
	name := fullName(t.name)
	return pgtx.Fixes{
		Shape:  "the table is missing or not of layout " + t.cfg.Layout + ": create it (docs/sql.md), or set table or layout",
		Rights: "GRANT INSERT, SELECT ON " + name + " to the role that Outrider connects as, and USAGE on its schema and sequence",
	}
}

// Check implements [adapters.Checker]: the tables exist, have the columns of their layout, and may be written to.
func (d *Destination) Check(ctx context.Context) error {
	var errs []error
	for _, t := range d.targets {
		s, err := t.look(ctx)
		if err == nil {
			err = t.permitted(ctx, s)
		}
		if err != nil {
			if away, ok := pg.NotConnected(err); ok {
				return away // whichever table it is
			}
			errs = append(errs, withoutKind(pgtx.Classify(t.explain("look at the table", err), t.fixes())))
		}
	}
	return errors.Join(errs...)
}

// withoutKind is an error's text for people.
func withoutKind(err error) error { return errors.New(err.Error()) }

// permitted says which right the role lacks.
func (t *target) permitted(ctx context.Context, s *shape) error {
	var inserts, selects, sequences bool
	err := t.pool.QueryRow(ctx, `SELECT has_any_column_privilege($1::text::regclass, 'INSERT'), has_any_column_privilege($1::text::regclass, 'SELECT'),
		coalesce((SELECT bool_and(has_sequence_privilege(s.oid, 'USAGE')) FROM pg_depend d JOIN pg_class s ON s.oid = d.objid AND s.relkind = 'S'
			WHERE d.refobjid = $1::text::regclass AND d.deptype = 'a'), true)`, s.full.Sanitize()).Scan(&inserts, &selects, &sequences)
	switch {
	case err != nil:
		return err
	case !inserts, s.conflict != "" && !selects, !sequences:
		return errors.New("the role may not insert rows; " + t.fixes().Rights)
	}
	return nil
}
