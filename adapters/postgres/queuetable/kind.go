package queuetable

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/layout"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
)

// kind is how it is known which rows of a table are claimed. The tables of a queue are of one kind: rows of [marking] ones have a status for it,
// of [remembering] ones the queue alone knows.
type kind interface {
	validate(l *Layout) []error
	marks() bool // in the tables

	// These build statements; what they return are templates, but for whole statements.

	unfinished(s *Statuses) []string                 // statuses of rows that are to be delivered, those that wait first
	held(q *queueSQL, members []string) []string     // the ranges of a look at what is being processed
	looked(q *queueSQL) (claimed, held, wait string) // columns of a look
	attempts(q *queueSQL) string                     // likewise; "": the claim reads them
	budget() string                                  // the parameter that bounds a look
	complete(q *queueSQL, t *queueText)              // adds the statements that only this kind has
	settle(q *queueSQL, o settlement) string
	settled(q *queueSQL, statuses string) string // finds rows that have one of the statuses which a settle wrote, or are gone

	// These claim rows and end claims.

	prepare(ctx context.Context, q *Queue, t *queueTable) error // finds what a claim needs
	describe(ctx context.Context, q *Queue, conn *pgxpool.Conn, t *queueTable, indexes queueIndexes) error
	args(s *tableClaim) []any // further parameters of a look
	theirs(s *tableClaim, g *queueGroup, key string, claimed []byte) bool
	failed(s *tableClaim, raw [][]byte) int // attempts, by the look
	take(ctx context.Context, s *tableClaim) error
	owners(t *queueTable) owners
	extend(ctx context.Context, q *Queue, e *extension) (lost []*adapters.Claim, err error)
	recover(ctx context.Context, q *Queue, t *queueTable) (int, error)
}

// owners number what rows of one settle share that says whose claims they are. The caller has the queue's lock.
type owners interface {
	number(r *adapters.ClaimResult, h *hold) int          // from 1
	settling(rows *settleRows) []any                      // the first parameters of the statement that settles
	fence() *lanesOf                                      // the lanes whose epochs it asks for; nil: none
	asking(rows *settleRows, timeout time.Duration) []any // the parameters of [kind.settled]
}

// kindOf is the kind of a layout's tables.
func kindOf(l *Layout) kind {
	if l.Claimless() {
		return remembering{}
	}
	return marking{}
}

// newSQL returns the builder of a table's statements, by its quoted name.
func newSQL(table string, l *Layout) queueSQL {
	return queueSQL{table: table, layout: l, kind: kindOf(l)}
}

// marking is the kind of tables with a status for rows that are being processed.
type marking struct{}

// remembering is the kind of tables without one, see remember.go.
type remembering struct{}

func (marking) validate(*Layout) []error { return nil }

func (marking) marks() bool { return true }

func (remembering) marks() bool { return false }

func (remembering) validate(l *Layout) (errs []error) {
	c := &l.Columns
	if c.Claimed != "" || c.Owner != "" || l.ClaimEnds {
		errs = append(errs, errors.New("a layout without a status for rows that are being processed has no column for claims"))
	}
	if l.Noted() && (c.NextAttempt != "" || c.Error != "" || l.Statuses.Again() != l.Statuses.Pending) {
		errs = append(errs, errors.New("a layout without a status for rows that are being processed and without a column for attempts has no column "+
			"for the next attempt or errors either, and no status for retries: all of that is in the notes"))
	}
	return errs
}

// Package layout describes queue tables.
type (
	// Layout says what the columns and statuses of queue tables are called.
	Layout = layout.Queue
	// Table is one table of a [Queue].
	Table = layout.Table
	// Columns are the names of a queue table's columns.
	Columns = layout.Columns
	// Statuses are the values of the status column.
	Statuses = layout.Statuses
)

// validate reports everything that is wrong with a layout.
func validate(l *Layout) error {
	errs := append(l.Problems(), kindOf(l).validate(l)...)
	for _, c := range l.All() {
		if len(c.Name) > pg.LongestName || !pg.PlainText(c.Name) {
			errs = append(errs, fmt.Errorf("%q cannot be the name of a column (%s)", c.Name, c.What))
		}
	}
	if l.ClaimEnds && l.Columns.Updated == "" {
		errs = append(errs, errors.New("a layout whose claims leave no time behind needs a column updated, by which a settle is found again"))
	}
	for _, v := range l.InUse() {
		if !pg.PlainText(v.Name) {
			errs = append(errs, fmt.Errorf("the status %s, %q, has a control character, or is not valid text", v.What, v.Name))
		}
	}
	return errors.Join(append(errs, validateDeadBy(l)...)...)
}

// group is the group of a row of a table. It may be made of several columns, and is cut in the index where it can be too long for one.
func (q *queueSQL) group(table string) string {
	group := table + pg.QuoteName(q.layout.Columns.Group)
	if q.layout.GroupByType {
		group = fmt.Sprintf("(coalesce(%s%s::text || ':', '') || %s::text)", table, pg.QuoteName(q.layout.Columns.AggregateType), group)
	}
	if q.short {
		return fmt.Sprintf("(CASE WHEN octet_length(%[1]s) > %[2]d THEN rpad(substr(%[1]s, 1, %[3]d), %[4]d, '.') ELSE %[1]s END)", group,
			adapters.MaxRowNameBytes, shortGroup, adapters.MaxRowNameBytes+shortGroup)
	}
	return group
}

// shortGroup is how many characters are in an index of a group whose name is too long for a message. Those that begin alike are one group there;
// they stay too long, and so their rows are dead. An index takes 2.7 KB of a row, and refuses rows with more.
const shortGroup = adapters.MaxRowNameBytes / 4

// textTypes are those of text.
var textTypes = []uint32{pgtype.TextOID, pgtype.VarcharOID, pgtype.BPCharOID}

// unbounded reports whether the group can be too long for an index of it. A layout with an index of its own by group needs the column as it is.
func (q *queueSQL) unbounded(columns map[string]pg.TableColumn) bool {
	group := columns[q.layout.Columns.Group]
	_, size, _ := strings.Cut(group.Type, "(")
	n, err := strconv.Atoi(strings.TrimSuffix(size, ")"))
	return slices.Contains(textTypes, group.OID) && (err != nil || n > shortGroup) && !q.layout.Definitions[layout.PostgreSQL].FindsHeld
}

// groupName is the name of a group, a template. Equal values have one name: 1.5 and 1.50 are the same group.
func (q *queueSQL) groupName(value string) string {
	if q.types.group == "numeric" {
		value = "trim_scale(" + value + ")"
	}
	return value + "::text"
}

// validateDeadBy reports what is wrong with the statuses of dead rows.
func validateDeadBy(l *Layout) (errs []error) {
	s := &l.Statuses
	for _, cause := range slices.Sorted(maps.Keys(l.DeadBy)) {
		switch status := l.DeadBy[cause]; {
		case status == "" || !pg.PlainText(status):
			errs = append(errs, fmt.Errorf("the status of rows that died of %q, %q, has no value, or a control character", cause, status))
		case slices.Contains([]string{s.Pending, s.Retrying, s.Processing, s.Done}, status):
			errs = append(errs, fmt.Errorf("the status %q of rows that died of %q is that of others, too", status, cause))
		}
	}
	return errs
}
