package queuetable

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/sqltext"
	"github.com/outriderhq/outrider/adapters/layout"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
)

// queueIndexes says which orders the indexes of a table have.
type queueIndexes struct {
	aged        bool // what is unfinished can be found by (created, key), in one of two ways:
	heldAged    bool // all of it is in an index
	waitingAged bool // what waits is in an index
	listed      bool // and what is being processed can be found by its status

	short   bool // the groups in them are cut; see queueSQL.groupPairs
	whole   bool // all that is unfinished in a group, by (created, key)
	keyed   bool // what waits in a group, by (created, key)
	waiting bool // what waits in a group, by created
	held    bool // what is being processed in a group, by created
}

// queueIndex is an index of a queue table.
type queueIndex struct{ pg.TableIndex }

// add notes what an index is good for.
func (q *queueIndexes) add(sql *queueSQL, index queueIndex) {
	layout := sql.layout
	c, statuses := &layout.Columns, &layout.Statuses
	var group []string
	if c.Group != "" {
		group = []string{sql.groupInIndex()}
	}
	waiting := index.covers(layout, statuses.Waiting()...)
	held := index.covers(layout, sql.kind.unfinished(statuses)[len(statuses.Waiting()):]...)
	byAge := index.serves(nil, c.Created, c.Key)
	q.waitingAged = q.waitingAged || waiting && byAge
	q.heldAged = q.heldAged || waiting && held && byAge
	q.listed = q.listed || held && !waiting || index.Predicate == "" && index.serves(nil, c.Status)

	byKey := index.serves(group, c.Created, c.Key)
	q.whole = q.whole || waiting && held && byKey
	q.keyed = q.keyed || waiting && byKey

	byGroup, byStatus := index.serves(group, c.Created), index.serves(append(group, c.Status), c.Created)
	q.waiting = q.waiting || waiting && byGroup || (waiting || index.Predicate == "") && byStatus
	q.held = q.held || held && byGroup || (held || index.Predicate == "") && byStatus
}

// groupInIndex is what the first column of an index by group is called.
func (q *queueSQL) groupInIndex() string {
	if q.layout.GroupByType || q.short {
		return pg.IndexExpression(q.fill("{set_group}"))
	}
	return q.layout.Columns.Group
}

// serves reports whether the index has the rows that are equal in some columns
// ordered by others.
func (i queueIndex) serves(equal []string, order ...string) bool {
	n := len(equal)
	if len(i.Columns) < n+len(order) || !slices.Equal(i.Columns[n:n+len(order)], order) {
		return false
	}
	return !slices.ContainsFunc(equal, func(c string) bool { return !slices.Contains(i.Columns[:n], c) })
}

// covers reports whether the index has the rows of some statuses and not the
// finished ones: its predicate, in whatever form the server shows it, is a list
// of statuses with these.
func (i queueIndex) covers(layout *Layout, statuses ...string) bool {
	rest := i.Predicate
	if !strings.Contains(rest, layout.Columns.Status) || strings.Contains(rest, " AND ") || strings.Contains(rest, "NOT ") {
		return false
	}
	for _, status := range statuses {
		quoted, number := pg.Literal(status), regexp.MustCompile(`\b`+regexp.QuoteMeta(status)+`\b`)
		if !strings.Contains(rest, quoted) && (strings.Contains(rest, "'") || !number.MatchString(rest)) {
			return false
		}
	}
	return !strings.Contains(rest, pg.Literal(layout.Statuses.Done))
}

// wanted returns the indexes that keep claims cheap whatever is retained, and
// under an old snapshot: the unfinished rows by group, and by age. An index of
// all that is unfinished gets a new entry with each claim. So where there is another
// one that finds what is being processed ([layout.Definition]), ours have just the rows that wait.
func (q *queueSQL) wanted(name pgx.Identifier) []pg.Step {
	group := [3]string{"_outrider_group_idx", "{set_group}, {set_created}, {set_key}", "{unfinished}"}
	age := [3]string{"_outrider_age_idx", "{set_created}, {set_key}", "{unfinished}"}
	if q.layout.Definitions[layout.PostgreSQL].FindsHeld {
		group[0], group[2] = "_outrider_waiting_idx", "{waiting}"
		age[2] = "{waiting}"
	}
	wanted := [][3]string{group, age}
	if q.layout.Columns.Group == "" {
		wanted = wanted[1:]
	}
	steps := make([]pg.Step, len(wanted))
	for i, w := range wanted {
		steps[i] = q.index(name, w[0], w[1], "IN ("+w[2]+")")
	}
	return steps
}

// index is the step that makes an index of rows of some statuses.
func (q *queueSQL) index(table pgx.Identifier, suffix, columns, statuses string) pg.Step {
	name := pg.DerivedName(table, suffix)
	return pg.Step{What: "index", Name: pg.Beside(table, name).Sanitize(), Create: q.fill(
		"CREATE INDEX IF NOT EXISTS {index} ON {t} ("+columns+") WHERE {set_status} "+statuses, sqltext.Names{"index": pg.QuoteName(name)})}
}

// ours are all indexes that Outrider adds: those of claims, those of dead rows and, with retention, that of delivered ones.
func (q *queueSQL) ours(name pgx.Identifier) []pg.Step {
	steps := append(q.wanted(name), q.deadIndex(name))
	if q.layout.OldIsDeleted {
		steps = append(steps, q.oldIndex(name))
	}
	return steps
}

// deadIndex is the index that finds dead rows, and only these, so that it costs nothing
// while nothing dies.
func (q *queueSQL) deadIndex(name pgx.Identifier) pg.Step {
	return q.index(name, "_outrider_dead_idx", "{set_created}, {set_key}", "IN ({dead})")
}

// oldIndex is the index that finds delivered rows by age.
func (q *queueSQL) oldIndex(name pgx.Identifier) pg.Step {
	return q.index(name, "_outrider_done_idx", "{set_created}, {set_key}", "= {is_done}")
}

// shortGroup is how many characters are in an index of a group whose name is too long for a message. Those that begin alike are one group there;
// they stay too long, and so their rows are dead. An index takes 2.7 KB of a row, and refuses rows with more.
const shortGroup = adapters.MaxRowNameBytes / 4

// unbounded reports whether the group can be too long for an index of it. A layout with an index of its own by group needs the column as it is.
func (q *queueSQL) unbounded(columns map[string]pg.TableColumn) bool {
	group := columns[q.layout.Columns.Group]
	_, size, _ := strings.Cut(group.Type, "(")
	n, err := strconv.Atoi(strings.TrimSuffix(size, ")"))
	return slices.Contains(textTypes, group.OID) && (err != nil || n > shortGroup) && !q.layout.Definitions[layout.PostgreSQL].FindsHeld
}

// textTypes are those of text.
var textTypes = []uint32{pgtype.TextOID, pgtype.VarcharOID, pgtype.BPCharOID}
