package queuetable

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
)

// describe finds out once what a table's statements depend on: types, and
// the indexes that are there. The caller has claiming.
func (q *Queue) describe(ctx context.Context, t *queueTable) error {
	if t.described {
		return nil
	}
	if err := t.find(ctx, q.pool); err != nil {
		return err
	}
	conn, err := q.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	columns, err := pg.TableColumns(ctx, conn, t.sql.table)
	if err != nil {
		return err
	}
	if err := q.checkColumns(columns, t); err != nil {
		return err
	}
	c := &t.sql.layout.Columns
	t.sql.types = queueTypes{
		key: columns[c.Key].Plain, group: columns[c.Group].Plain, status: columns[c.Status].Plain, created: columns[c.Created].Plain,
		claimed: columns[c.Claimed].Plain, payload: columns[c.Payload].Plain, due: columns[c.NextAttempt].Plain, failure: columns[c.Error].Cut,
	}
	indexes, err := t.indexes(ctx, conn)
	if err != nil {
		return err
	}
	if t.sql.short = indexes.short; t.sql.short || t.sql.layout.GroupByType {
		t.sql.types.group = "text"
	}
	if t.aged = indexes.aged; !t.aged {
		t.newest, t.latest = position{}, position{} // read by age from the beginning should an index come
		t.unmatched.round++
		t.wakeChanged() // nothing would notice that their first rows change
	}
	t.whole, t.heldAged = indexes.whole, indexes.heldAged
	if err := t.sql.kind.describe(ctx, q, conn, t, indexes); err != nil {
		return err
	}
	text := t.sql.text(indexes)
	q.mu.Lock() // settling reads them
	t.text, t.highest = text, pg.Highest(conn.Conn())
	q.mu.Unlock()
	t.described = true
	return nil
}

// text builds the statements.
func (q *queueSQL) text(indexes queueIndexes) queueText {
	text := queueText{
		everything: q.everything(indexes.heldAged),
		first:      q.byAge(pageFirst, indexes.heldAged), next: q.byAge(pageNext, indexes.heldAged),
		latest: q.byAge(pageLatest, indexes.heldAged), later: q.byAge(pageLater, indexes.heldAged),
		look:  q.look(indexes),
		done:  q.kind.settle(q, settlement{status: "{is_done}", done: true}),
		retry: q.kind.settle(q, settlement{status: "{is_retrying}", withError: !q.layout.ErrorWhenDead}),
		dead:  q.kind.settle(q, settlement{status: "{is_dead}", withError: true, dead: true}), deadBy: q.deadBy(),
		put:    q.kind.settle(q, settlement{status: q.waitingAgain()}),
		isDone: q.kind.settled(q, "{is_done}"), isDead: q.kind.settled(q, "{dead}"),
		locked: q.locked(), elsewhere: q.elsewhere(), forgetNotes: q.forgetNotes(),
	}
	q.kind.complete(q, &text)
	return text
}

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

func (t *queueTable) indexes(ctx context.Context, q pg.Querier) (queueIndexes, error) {
	all, err := pg.TableIndexes(ctx, q, t.sql.table)
	if err != nil {
		return queueIndexes{}, err
	}
	var found queueIndexes
	for _, short := range []bool{false, true} {
		sql := t.sql
		sql.short = short
		of := queueIndexes{short: short}
		for _, index := range all {
			of.add(&sql, queueIndex{index})
		}
		if !short || of.whole && !found.whole {
			found = of
		}
	}
	found.aged = found.heldAged || found.waitingAged && found.listed
	return found, nil
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

// timeTypes are what times may be.
var timeTypes = []uint32{pgtype.TimestampOID, pgtype.TimestamptzOID}
