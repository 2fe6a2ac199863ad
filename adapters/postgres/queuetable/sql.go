package queuetable

import (
	"cmp"
	"fmt"
	"maps"
	"strings"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/sqltext"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
	"github.com/outriderhq/outrider/adapters/postgres/internal/wire"
)

// queueSQL builds the statements for one table. It does no I/O; what it needs
// to know of the server are the types of some columns.
type queueSQL struct {
	table  string // quoted
	layout *Layout
	kind   kindText
	types  queueTypes
	lanes  string // quoted table with the epochs of lanes; "": settling does not ask for them
	notes  string // quoted table with notes; "": there are none, see remember_sql.go
	maxRow int64  // bytes of payload that are read; 0: [adapters.DefaultMaxRow]
	long   bool   // groups can be too long for an index of the column
	short  bool   // groups are as the index has them that is made for long ones
}

// queueTypes are types as a cast names them, without modifiers.
type queueTypes struct {
	key, group, status, created, claimed, payload string

	due     string // of the next attempt
	failure string // of the error, with modifiers
}

// fill puts the layout's names into a template: {t} is the table, {key} and so
// on its columns, qualified with t; {set_key} the same unqualified; {key_type} the
// type of the column; {waiting} and {unfinished} lists of statuses, {is_dead}
// and so on one of them.
//
// A template has no name in it, and what was filled is never filled again: a column
// may be called {t}.
func (q *queueSQL) fill(template string, more ...sqltext.Names) string {
	names := q.names()
	for _, m := range more {
		maps.Copy(names, m)
	}
	return sqltext.Fill(template, names)
}

func (q *queueSQL) names() sqltext.Names {
	c, s := &q.layout.Columns, &q.layout.Statuses
	names := sqltext.Names{
		"t": q.table, "waiting": pg.Literals(s.Waiting()...), "unfinished": pg.Literals(q.kind.unfinished(s)...), "processing": pg.Literal(s.Processing),
		"is_pending": pg.Literal(s.Pending), "is_retrying": pg.Literal(s.Again()), "is_done": pg.Literal(s.Done), "is_dead": pg.Literal(s.Dead),
		"dead": pg.Literals(q.layout.Dead()...), "key_type": q.types.key, "group_type": cmp.Or(q.types.group, "text"), "created_type": q.types.created,
		"claimed_type": q.types.claimed, "status_type": cmp.Or(q.types.status, "text"), "error_type": cmp.Or(q.types.failure, "text"),
	}
	for _, column := range append(c.Required(), c.Optional()...) {
		if column.Name != "" {
			name := pg.QuoteName(column.Name)
			names[column.What], names["set_"+column.What] = "t."+name, name
		}
	}
	if c.Group != "" {
		names["group"], names["set_group"], names["other_group"] = q.group("t."), q.group(""), q.group("o.")
	}
	if q.notes != "" { // a note has what the table has no columns for
		maps.Copy(names, sqltext.Names{"notes": q.notes, "queue": pg.Literal(q.table), "attempts": "n.attempts", "next_attempt": "n.due_at", "error": "n.last_error"})
	}
	return names
}

// The pages of a reading by age.
type agePage struct{ order, place string }

var (
	pageFirst  = agePage{"{created}, {key}", ""}
	pageNext   = agePage{"{created}, {key}", "\n  AND ({created}, {key}) > ($2, $3)"}
	pageLatest = agePage{"{created} DESC, {key} DESC", ""}
	pageLater  = agePage{"{created} DESC, {key} DESC", "\n  AND ({created}, {key}) > ($2, $3)"}
)

// byAge finds rows by age: unfinished rows in the order of (created, key), from
// a place on or from the end down to it. It takes a partial index on just these
// two, of what waits or (held) of all that is unfinished. Parameters: limit,
// created and key of the place.
func (q *queueSQL) byAge(page agePage, held bool) string {
	statuses := "{waiting}"
	if held {
		statuses = "{unfinished}"
	}
	return q.fill(`SELECT {created}, {key}::text, ` + q.groupColumn() + `, false, t.ctid
FROM {t} t
WHERE {status} IN (` + statuses + `)` + page.place + `
ORDER BY ` + page.order + `
LIMIT $1`)
}

// held lists what is being processed. It belongs to what is unfinished: of a
// group that another process holds a row of, which we have never seen waiting, nothing
// behind that row may be claimed. Parameter: limit.
func (q *queueSQL) held() string { return q.heldUpTo("$1") }

func (q *queueSQL) heldUpTo(limit string) string {
	return q.fill("SELECT {created}, {key}::text, " + q.groupColumn() + ", true, t.ctid FROM {t} t WHERE {status} = {processing} LIMIT " + limit)
}

// everything is the first page of all that is unfinished by age, with all that is
// being processed where the index does not have it, as the same snapshot sees it.
// Parameters: limit of the page and, where it does not, limit of the others.
func (q *queueSQL) everything(held bool) string {
	if held {
		return q.byAge(pageFirst, held)
	}
	return "(" + q.byAge(pageFirst, held) + ")\nUNION ALL\n(" + q.heldUpTo("$2") + ")"
}

// groups finds the groups that have rows of a status, in the order of their
// names, from a name on: one index probe for each group, however many rows it
// has. A last row with n = 0 means that there are rows without a group.
// Parameters: limit, and the name (not for the first page).
func (q *queueSQL) groups(status string, first bool) string {
	place := " AND {group} > $2"
	if first {
		place = ""
	}
	return q.fill(`WITH RECURSIVE walk AS (
    (SELECT {group} AS name, 1 AS n FROM {t} t
     WHERE {status} = {this}`+place+` ORDER BY {group} LIMIT 1)
    UNION ALL
    SELECT (SELECT {group} FROM {t} t
            WHERE {status} = {this} AND {group} > w.name ORDER BY {group} LIMIT 1), w.n + 1
    FROM walk w WHERE w.name IS NOT NULL AND w.n < $1
)
SELECT w.n, `+q.groupName("w.name")+` FROM walk w WHERE w.name IS NOT NULL
UNION ALL
SELECT 0, NULL WHERE EXISTS (SELECT FROM {t} t WHERE {status} = {this} AND {group} IS NULL)`,
		sqltext.Names{"this": pg.Literal(status)})
}

// groupColumn selects the group, a template; NULL for tables without groups.
func (q *queueSQL) groupColumn() string {
	if q.layout.Columns.Group == "" {
		return "NULL::text"
	}
	return q.groupName("{group}")
}

// look reads what is unfinished in groups, each from a place on, in the order
// of (created, key). Parameters, arrays with one entry per group: name, whether
// rows without a group belong to it, created and key of the place (null key:
// the place itself is included), limit.
//
// With one index on (group, created, key) over all that is unfinished, a group
// is one range of it (whole). Otherwise it is a range for each status: first comes
// what is being processed, and the reader of the rows merges the two. Nothing
// is sorted that an index has in order, because that would copy every payload. The
// groups come in the order of the arrays, because each is looked up by itself, and
// the reader of the rows checks it.
//
// The last parameter bounds the payloads, which may not all fit: no row comes after that
// many bytes.
func (q *queueSQL) look(indexes queueIndexes) string {
	return q.fill(`SELECT s.* FROM (
SELECT g.n::int AS n, r.*, sum(r.size) OVER (ROWS UNBOUNDED PRECEDING) AS total
FROM unnest($1::{group_type}[], $2::bool[], $3::{created_type}[], $4::{key_type}[], $5::int[])
     WITH ORDINALITY AS g(name, nulls, since, after, lim, n)
CROSS JOIN LATERAL (
    ` + strings.Join(q.ranges(indexes), "\n    UNION ALL\n    ") + `
) r
) s
WHERE s.total - s.size < ` + q.kind.budget())
}

// ranges are the parts of a look at one group, templates: what is being processed (unless it
// is among the others), and what waits.
func (q *queueSQL) ranges(indexes queueIndexes) (ranges []string) {
	// Written as a range, the group is no constant to the planner, so that the
	// order begins with it: other indexes, by age, do not have that order.
	named := "{group} <= g.name AND ({group}, {created}) >= (g.name, g.since)"
	unnamed := "g.nulls AND {group} IS NULL AND {created} >= g.since"
	if q.layout.Columns.Group == "" {
		named, unnamed = "{created} >= g.since", ""
	}
	statuses := []string{"IN ({unfinished})"}
	if !indexes.whole {
		statuses = nil
		for _, s := range q.waitingOnes() {
			statuses = append(statuses, "= "+s)
		}
	}
	if !indexes.whole {
		ranges = q.kind.held(q, members(named, unnamed))
	}
	order := byCreatedTies
	if indexes.whole || indexes.keyed {
		order = byCreatedKey
	}
	if len(statuses) == 1 && order == byCreatedKey { // in order as it is, but for the group with rows without one
		if unnamed == "" {
			return append(ranges, q.branch(statuses[0], named, order))
		}
		ranges = append(ranges, q.branch(statuses[0], "NOT g.nulls AND "+named, order))
		named = "g.nulls AND " + named
	}
	var sorted []string
	for _, status := range statuses {
		for _, member := range members(named, unnamed) {
			sorted = append(sorted, q.branch(status, member, order))
		}
	}
	return append(ranges, "(SELECT u.* FROM (\n    "+strings.Join(sorted, "\n    UNION ALL\n    ")+
		"\n    ) u\n    ORDER BY u.created, u.key\n    LIMIT g.lim)")
}

// members are the conditions for a group's rows: with its name, and without one.
func members(named, unnamed string) []string {
	if unnamed == "" {
		return []string{named}
	}
	return []string{named, unnamed}
}

// The orders of a range, and how many of its rows are taken: with an index that
// does not end with the key, all that are as old as the last one.
type rangeOrder struct{ order, limit string }

var (
	byCreated     = rangeOrder{"{created}", "LIMIT g.lim"}
	byCreatedKey  = rangeOrder{"{created}, {key}", "LIMIT g.lim"}
	byCreatedTies = rangeOrder{"{created}", "FETCH FIRST (g.lim) ROWS WITH TIES"}
)

// waitingOnes are placeholders of the statuses that wait.
func (q *queueSQL) waitingOnes() []string {
	return []string{"{is_pending}", "{is_retrying}"}[:len(q.layout.Statuses.Waiting())]
}

// branch is one range of a look, a template.
func (q *queueSQL) branch(status, member string, in rangeOrder) string {
	order := in.order
	if q.layout.Columns.Group != "" {
		order = "{group}, " + order
	}
	return `(SELECT ` + q.lookColumns() + `
     FROM {t} t` + q.noted(false) + `
     WHERE {status} ` + status + ` AND ` + member + `
       AND (g.after IS NULL OR {created} > g.since OR {key} > g.after)
     ORDER BY ` + order + `
     ` + in.limit + `)`
}

// Columns of a look's result.
const (
	lookGroup = iota
	lookCreated
	lookKey
	lookID
	lookTID
	lookClaimed
	lookHeld
	lookWait
	lookSize
	lookType
	lookPayload
	lookAggregateType
	lookAggregateID
	lookTenant
	lookHeaders
	lookStored // bytes that are stored of a payload that was left out
	lookExtra  // the first of the columns that are headers; behind them, without claims, the attempts
)

// lookColumns are the columns of a look, but the first, a template. Payloads are
// read for rows that can be claimed; a held row only takes its place.
func (q *queueSQL) lookColumns() string {
	claimed, held, wait := q.kind.looked(q)
	return q.rowColumns(claimed, held, wait, "t.ctid")
}

// rowColumns are the columns of a row with what says whether it is claimed, is held and has to wait, and its place.
func (q *queueSQL) rowColumns(claimed, held, wait, tid string) string {
	c := &q.layout.Columns
	limit := cmp.Or(q.maxRow, adapters.DefaultMaxRow)
	oid, size, as := uint32(pgtype.TextOID), "octet_length({payload})", "::text"
	switch q.types.payload {
	case "bytea":
		oid, as = pgtype.ByteaOID, ""
	case "text", "character varying":
	default:
		oid, size = pgtype.JSONOID, "pg_column_size({payload})"
	}
	// A larger payload is not read, and must not use up a look's bytes.
	payload, size := "("+wire.Within("{payload}", oid, limit, "NULL")+")"+as, fmt.Sprintf("least(%s, %d)", size, limit)
	text := func(column, what string) string {
		if column == "" {
			return "NULL::text"
		}
		return wire.CutName("{"+what+"}", 0)
	}
	headers := "NULL::text"
	if c.Headers != "" {
		headers = "(" + wire.MetadataWithin("{headers}", 0) + ")::text"
	}
	columns := []string{
		"{created} AS created", "{key} AS key", "{key}::text AS id", tid + " AS tid",
		claimed + " AS claimed", held + " AS held", wait + " AS wait",
		"CASE WHEN " + held + " THEN 0 ELSE coalesce(" + size + ", 0) END AS size",
		text(c.Type, "type") + " AS type",
		"CASE WHEN " + held + " THEN NULL ELSE " + payload + " END AS payload",
		text(c.AggregateType, "aggregate_type") + " AS aggregate_type", text(c.AggregateID, "aggregate_id") + " AS aggregate_id",
		text(c.Tenant, "tenant") + " AS tenant", headers + " AS headers",
		"CASE WHEN " + held + " THEN NULL ELSE " + wire.Beyond("{payload}", oid, limit) + " END AS stored",
	}
	for i, h := range q.layout.Headers {
		columns = append(columns, fmt.Sprintf("%s AS header%d", wire.CutName("t."+pg.QuoteName(h.Column), 0), i+1))
	}
	if attempts := q.kind.attempts(q); attempts != "" {
		columns = append(columns, attempts+" AS attempts")
	}
	return strings.Join(columns, ", ")
}
