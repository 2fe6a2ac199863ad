package postgres

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// queueSettings pins the plans of a queue's statements: all of them are index
// scans and nested loops, whatever the statistics say, which are stale for a
// table whose interesting part is nearly always empty. Row security must not
// hide rows silently. The time zone is left alone: a timestamp without one
// must come out as it does for the others on the table (docs/flowcatalyst.md).
const queueSettings = `
SET client_encoding = 'UTF8';
SET default_transaction_isolation = 'read committed';
SET row_security = off;
SET jit = off;
SET plan_cache_mode = force_generic_plan;
SET max_parallel_workers_per_gather = 0;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_sort = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
`

// queueSQL builds the statements for one table. It does no I/O; what it needs
// to know of the server are the types of some columns.
type queueSQL struct {
	table  string // quoted
	layout *QueueLayout
	types  queueTypes
}

// queueTypes are types as a cast names them, without modifiers.
type queueTypes struct {
	key, group, status, created, claimed, payload string
}

// fill puts the layout's names into a template: {t} is the table, {key} and so
// on its columns, qualified with t; {set:key} the same unqualified; {key[]} the
// array type of the column; {waiting} and {unfinished} lists of statuses.
func (q *queueSQL) fill(template string, more ...string) string {
	c, s := &q.layout.Columns, &q.layout.Statuses
	pairs := slices.Concat(more, []string{
		"{t}", q.table,
		"{waiting}", literals(s.waiting()...),
		"{unfinished}", literals(append(s.waiting(), s.Processing)...),
		"{processing}", literal(s.Processing),
		"{key[]}", q.types.key + "[]",
		"{group[]}", cmp.Or(q.types.group, "text") + "[]",
		"{created[]}", q.types.created + "[]",
		"{claimed[]}", q.types.claimed + "[]",
	})
	for _, column := range append(c.required(), c.optional()...) {
		if column.name != "" {
			name := quoteName(column.name)
			pairs = append(pairs, "{"+column.what+"}", "t."+name, "{set:"+column.what+"}", name)
		}
	}
	return strings.NewReplacer(pairs...).Replace(template)
}

// newest finds rows by age, from a place on: unfinished rows in the order of
// (created, key). It takes an index on just these two, best a partial one.
// Parameters: created and key of the place (not for the first page), limit.
func (q *queueSQL) newest(first bool) string {
	place := "\n  AND ({created}, {key}) > ($2, $3)"
	if first {
		place = ""
	}
	return q.fill(`SELECT {created}, {key}::text, {group?}
FROM {t} t
WHERE {status} IN ({unfinished})`+place+`
ORDER BY {created}, {key}
LIMIT $1`, "{group?}", q.groupText())
}

// groups finds the groups that have rows of a status, in the order of their
// names, from a name on: one index probe for each group, however many rows it
// has. The last row, when its n is 0, tells of rows without a group.
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
SELECT w.n, w.name::text FROM walk w WHERE w.name IS NOT NULL
UNION ALL
SELECT 0, NULL WHERE EXISTS (SELECT FROM {t} t WHERE {status} = {this} AND {group} IS NULL)`,
		"{this}", literal(status))
}

// groupText selects the group; NULL for tables without groups.
func (q *queueSQL) groupText() string {
	if q.layout.Columns.Group == "" {
		return "NULL::text"
	}
	return q.fill("{group}::text")
}

// look reads what is unfinished in groups, each from a place on, in the order
// of (created, key). Parameters, arrays with one entry per group: name, whether
// rows without a group belong to it, created and key of the place (null key:
// the place itself is included), limit; and the bytes of payload after which
// to stop.
//
// With one index on (group, created, key) over all that is unfinished, a group
// is one range of it (whole). With one that begins with the status, it is a range
// for each status, and rows with equal times are sorted by key.
func (q *queueSQL) look(whole bool) string {
	c := &q.layout.Columns
	statuses := []string{"IN ({unfinished})"}
	if !whole {
		statuses = nil
		for _, s := range append(q.layout.Statuses.waiting(), q.layout.Statuses.Processing) {
			statuses = append(statuses, "= "+literal(s))
		}
	}
	// Written as a range, the group is no constant to the planner, so that the
	// order begins with it: other indexes, by age, do not have that order.
	members := []string{
		"{group} <= g.name AND ({group}, {created}) >= (g.name, g.since)",
		"{group} IS NULL AND g.nulls AND {created} >= g.since",
	}
	if c.Group == "" {
		members = []string{"g.nulls AND {created} >= g.since"}
	}
	var branches []string
	for _, status := range statuses {
		for _, member := range members {
			branches = append(branches, q.branch(status, member))
		}
	}
	return q.fill(`SELECT s.*
FROM (
    SELECT g.n::int AS n, r.*, sum(r.size) OVER (ORDER BY g.n, r.created, r.key ROWS UNBOUNDED PRECEDING) AS total
    FROM unnest($1::{group[]}, $2::bool[], $3::{created[]}, $4::{key[]}, $5::int[])
         WITH ORDINALITY AS g(name, nulls, since, after, lim, n)
    CROSS JOIN LATERAL (
        SELECT u.* FROM (
            ` + strings.Join(branches, "\n            UNION ALL\n            ") + `
        ) u
        ORDER BY u.created, u.key
        LIMIT g.lim
    ) r
) s
WHERE s.total - s.size < $6
ORDER BY s.n, s.created, s.key`)
}

// branch is one ordered range of a look.
func (q *queueSQL) branch(status, member string) string {
	order := "{created}, {key}"
	if q.layout.Columns.Group != "" {
		order = "{group}, " + order
	}
	return q.fill(`(SELECT ` + q.lookColumns() + `
             FROM {t} t
             WHERE {status} ` + status + ` AND ` + member + `
               AND (g.after IS NULL OR {created} > g.since OR {key} > g.after)
             ORDER BY ` + order + `
             LIMIT g.lim)`)
}

// Columns of a look's result.
const (
	lookGroup = iota
	lookCreated
	lookKey
	lookID
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
)

// lookColumns are the columns of a look, but the first. Payloads are
// read for rows that can be claimed; a held row only takes its place.
func (q *queueSQL) lookColumns() string {
	c := &q.layout.Columns
	wait := "0::float8"
	if c.NextAttempt != "" {
		wait = "coalesce(extract(epoch FROM {next_attempt} - now()), 0)::float8"
	}
	payload, size := "{payload}::text", "octet_length({payload})"
	switch q.types.payload {
	case "bytea":
		payload = "{payload}"
	case "text", "character varying":
	default:
		size = "pg_column_size({payload})"
	}
	text := func(column, what string) string {
		if column == "" {
			return "NULL::text"
		}
		return "{" + what + "}::text"
	}
	columns := []string{
		"{created} AS created", "{key} AS key", "{key}::text AS id",
		"CASE WHEN {status} = {processing} THEN {claimed} END AS claimed", "{status} = {processing} AS held", wait + " AS wait",
		"CASE WHEN {status} = {processing} THEN 0 ELSE coalesce(" + size + ", 0) END AS size",
		"{type}::text AS type",
		"CASE WHEN {status} = {processing} THEN NULL ELSE " + payload + " END AS payload",
		text(c.AggregateType, "aggregate_type") + " AS aggregate_type", text(c.AggregateID, "aggregate_id") + " AS aggregate_id",
		text(c.Tenant, "tenant") + " AS tenant", text(c.Headers, "headers") + " AS headers",
	}
	return strings.Join(columns, ", ")
}

// take claims rows by key. Parameters, arrays with one entry per row: key, the
// number of its group, its place in the group, from 1. Rows are locked where
// nobody else holds or has changed them; of each group those up to the first
// that is missing are claimed, the others are let go with the statement. A row
// that changed since it was looked at is seen as it is now: PostgreSQL looks
// at the newest version of what it locks. IS TRUE: see held.
func (q *queueSQL) take() string {
	due, attempts := "", "0"
	if q.layout.Columns.NextAttempt != "" {
		due = " AND ({next_attempt} IS NULL OR {next_attempt} <= now())"
	}
	if q.layout.Columns.Attempts != "" {
		attempts = "coalesce({attempts}, 0)::int"
	}
	return q.fill(`WITH locked AS MATERIALIZED (
    SELECT w.n, w.grp, w.place, {key} AS key
    FROM unnest($1::{key[]}, $2::int[], $3::int[]) WITH ORDINALITY AS w(key, grp, place, n)
    JOIN {t} t ON {key} = w.key
    WHERE ({status} IN ({waiting})) IS TRUE` + due + `
    FOR NO KEY UPDATE OF t SKIP LOCKED
), prefix AS MATERIALIZED (
    SELECT l.n, l.key
    FROM (SELECT l.*, row_number() OVER (PARTITION BY l.grp ORDER BY l.place) AS rank FROM locked l) l
    WHERE l.rank = l.place
)
UPDATE {t} t SET {set:status} = {processing}, {set:claimed} = now()
FROM prefix p
WHERE {key} = p.key
RETURNING p.n::int, {claimed}, ` + attempts)
}

// held is the condition that a row is still claimed as s says. IS TRUE keeps
// the status from being looked up in an index, in whose stead the planner would
// leave the key's: nearly all rows of that status are wanted, but each by its key.
const held = `{key} = s.key AND ({status} = {processing}) IS TRUE AND {claimed} IN (s.stamp, s.former)`

// settle writes one outcome, a status given as SQL, for many rows. Parameters, arrays with one entry
// per row: key, the two times of which one is the claim's, attempts, error, when it
// is due. It returns the numbers of the rows that were still claimed.
func (q *queueSQL) settle(status string, done, withError bool) string {
	c := &q.layout.Columns
	set := []string{"{set:status} = " + status}
	if done && c.Done != "" {
		set = append(set, "{set:done} = now()")
	}
	if c.Attempts != "" {
		set = append(set, "{set:attempts} = s.attempts")
	}
	if withError && c.Error != "" {
		set = append(set, "{set:error} = s.error")
	}
	if c.NextAttempt != "" && !done {
		set = append(set, "{set:next_attempt} = coalesce(s.due, {next_attempt})")
	}
	return q.fill(fmt.Sprintf(`UPDATE {t} t SET %s
FROM unnest($1::{key[]}, $2::{claimed[]}, $3::{claimed[]}, $4::int[], $5::text[], $6::timestamptz[])
     WITH ORDINALITY AS s(key, stamp, former, attempts, error, due, n)
WHERE `+held+`
RETURNING s.n::int`, strings.Join(set, ", ")))
}

// extend renews the times of claims. Parameters: key, the two times of which
// one is the claim's, the new one.
func (q *queueSQL) extend() string {
	return q.fill(`UPDATE {t} t SET {set:claimed} = s.next
FROM unnest($1::{key[]}, $2::{claimed[]}, $3::{claimed[]}, $4::{claimed[]})
     WITH ORDINALITY AS s(key, stamp, former, next, n)
WHERE ` + held + `
RETURNING s.n::int, {claimed}`)
}

// recover puts rows back that have been claimed for long. Parameters: seconds,
// the keys that are ours.
func (q *queueSQL) recover() string {
	return q.fill(`WITH stuck AS MATERIALIZED (
    SELECT {key} AS key FROM {t} t
    WHERE {status} = {processing} AND {claimed} < now() - make_interval(secs => $1) AND {key} <> ALL ($2::{key[]})
    FOR NO KEY UPDATE OF t SKIP LOCKED
)
UPDATE {t} t SET {set:status} = {back}
FROM stuck s
WHERE {key} = s.key
RETURNING {created}, {group?}`, "{back}", q.waitingAgain(), "{group?}", q.groupText())
}

// waitingAgain is the status of a row that is put back: as if it had never been
// claimed.
func (q *queueSQL) waitingAgain() string {
	s := &q.layout.Statuses
	if s.retrying() == s.Pending || q.layout.Columns.Attempts == "" {
		return literal(s.Pending)
	}
	return q.fill("(CASE WHEN {attempts} > 0 THEN " + literal(s.retrying()) + " ELSE " + literal(s.Pending) + " END)::" + cmp.Or(q.types.status, "text"))
}
