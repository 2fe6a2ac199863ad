package queuetable

import (
	"fmt"
	"strings"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
	"github.com/outriderhq/outrider/adapters/postgres/internal/wire"
)

// take claims rows in the version that was looked at. Parameters, arrays with
// one entry per row: the version's place in the table, key, the number of its
// group, its place in the group, from 1; and the claim's mark. Rows are locked where no other process holds
// or has changed them; of each group those up to the first that is missing are
// claimed, the others are let go with the statement.
//
// A version is found by its place without a search in an index, as long as the
// key is no reason for one: IS NOT DISTINCT FROM keeps the planner from that.
// The key detects a row that has the place of one that is gone. Where a row was
// changed after the statement began, PostgreSQL locks the newest version: its
// place is another one.
func (q *queueSQL) take() string {
	return q.fill(`WITH locked AS MATERIALIZED (
    SELECT w.n, w.grp, w.place, w.tid AS seen, t.ctid AS tid
    FROM unnest($1::tid[], $2::{key_type}[], $3::int[], $4::int[]) WITH ORDINALITY AS w(tid, key, grp, place, n)
    JOIN {t} t ON t.ctid = w.tid
    WHERE ` + q.seen() + `
    FOR NO KEY UPDATE OF t SKIP LOCKED
), prefix AS MATERIALIZED (
    SELECT l.n, l.tid
    FROM (SELECT l.*, row_number() OVER (PARTITION BY l.grp ORDER BY l.place) AS rank FROM locked l WHERE l.tid = l.seen) l
    WHERE l.rank = l.place
)
UPDATE {t} t SET {set_status} = {processing}, {set_claimed} = ` + stampOf("$5") + q.taken() + `
FROM prefix p
WHERE t.ctid = p.tid
RETURNING p.n::int, ` + q.marked())
}

// takeAll claims rows in the version that was looked at, without locking them
// first, which is a quarter of what a claim costs the server. It is right only when
// it gets all of them: see [tableClaim.takeAll]. Parameters, arrays with one entry per
// row: the version's place in the table, key; and the claim's mark.
func (q *queueSQL) takeAll() string {
	return q.fill(`UPDATE {t} t SET {set_status} = {processing}, {set_claimed} = ` + stampOf("$3") + q.taken() + `
FROM unnest($1::tid[], $2::{key_type}[]) WITH ORDINALITY AS w(tid, key, n)
WHERE t.ctid = w.tid AND ` + q.seen() + `
RETURNING w.n::int, ` + q.marked())
}

// stampOf is the time of a claim: the beginning of this millisecond, less the
// claim's mark in microseconds.
func stampOf(parameter string) string {
	return "(SELECT date_trunc('milliseconds', now()) - " + parameter + "::int * interval '1 microsecond')"
}

// seen is the condition that the row at a place is the one that was looked at, and
// waits.
func (q *queueSQL) seen() string {
	due := ""
	if q.layout.Columns.NextAttempt != "" {
		due = " AND ({next_attempt} IS NULL OR {next_attempt} <= " + nowOf(q.types.due) + ")"
	}
	return "{key} IS NOT DISTINCT FROM w.key AND ({status} IN ({waiting})) IS TRUE" + due
}

// marked are the columns of a row that was claimed: when, and attempts.
func (q *queueSQL) marked() string {
	if q.layout.Columns.Attempts == "" {
		return "{claimed}, 0"
	}
	return "{claimed}, coalesce({attempts}, 0)::int"
}

// claimed is the condition that a row is still claimed as s says. IS TRUE keeps
// the status from being looked up in an index, in whose stead the planner would
// leave the key's: nearly all rows of that status are wanted, but each by its key.
const claimed = `({status} = {processing}) IS TRUE AND {claimed} IN (s.stamp, s.former)`

// settlement is what a statement writes.
type settlement struct {
	status    string // a template; {this} in it is filled with this
	this      string
	done      bool
	withError bool
	dead      bool // for tables with notes
}

// written is what a settle writes, templates.
func (q *queueSQL) written(o settlement) []string {
	c := &q.layout.Columns
	set := []string{"{set_status} = " + o.status}
	if o.done && c.Done != "" {
		set = append(set, "{set_done} = now()")
	}
	if c.Attempts != "" {
		set = append(set, "{set_attempts} = s.attempts")
	}
	if o.withError && c.Error != "" {
		set = append(set, "{set_error} = s.error::{error_type}") // a cast cuts what is too long
	}
	if c.NextAttempt != "" && !o.done {
		set = append(set, "{set_next_attempt} = coalesce("+q.dueValue()+", {next_attempt})")
	}
	if ends := q.ended(); ends != "" {
		set = append(set, ends)
	}
	return set
}

// writing is the beginning of the statement that settles rows: the change, and the word before what it joins; templates.
func (q *queueSQL) writing(o settlement) (write, from string) {
	if o.done && q.layout.DoneIsDeleted {
		return "DELETE FROM {t} t", "USING"
	}
	return "UPDATE {t} t SET " + strings.Join(q.written(o), ", "), "FROM"
}

// deadBy are the statements that settle dead rows, by what they died of.
func (q *queueSQL) deadBy() map[string]string {
	texts := make(map[string]string, len(q.layout.DeadBy))
	for cause, status := range q.layout.DeadBy {
		texts[cause] = q.kind.settle(q, settlement{status: "{this}", this: pg.Literal(status), withError: true, dead: true})
	}
	return texts
}

// extend renews the times of claims, but those of rows that other sessions have locked. Parameters: key, the two times of which
// one is the claim's, the new one. It returns the numbers of the rows that are still claimed, with the times that they have.
func (q *queueSQL) extend() string {
	return q.fill(`WITH asked AS MATERIALIZED (
    SELECT * FROM unnest($1::{key_type}[], $2::{claimed_type}[], $3::{claimed_type}[], $4::{claimed_type}[])
         WITH ORDINALITY AS s(key, stamp, former, next, n)
), free AS MATERIALIZED (
    SELECT s.* FROM asked s JOIN {t} t ON {key} = s.key WHERE ` + claimed + ` FOR NO KEY UPDATE OF t SKIP LOCKED
), renewed AS (
    UPDATE {t} t SET {set_claimed} = s.next FROM free s WHERE {key} = s.key AND ` + claimed + `
    RETURNING s.n, {claimed} AS at
)
SELECT r.n::int, r.at FROM renewed r
UNION ALL
SELECT s.n::int, {claimed} FROM asked s JOIN {t} t ON {key} = s.key WHERE ` + claimed + ` AND s.n NOT IN (SELECT r.n FROM renewed r)`)
}

// recover puts rows back that have been claimed for long. Parameters: seconds,
// the keys that are ours.
func (q *queueSQL) recover() string {
	return q.fill(`WITH stuck AS MATERIALIZED (
    SELECT {key} AS key FROM {t} t
    WHERE {status} = {processing} AND {claimed} < now() - make_interval(secs => $1) AND {key} <> ALL ($2::{key_type}[])
    FOR NO KEY UPDATE OF t SKIP LOCKED
)
UPDATE {t} t SET {set_status} = ` + q.putBack() + `
FROM stuck s
WHERE {key} = s.key
RETURNING {created}, ` + q.groupColumn())
}

// unclaim puts rows back that a claim with a mark took. Parameters: keys, mark.
func (q *queueSQL) unclaim() string {
	return q.fill(`WITH ours AS MATERIALIZED (
    SELECT t.ctid AS tid
    FROM unnest($1::{key_type}[]) AS s(key)
    JOIN {t} t ON {key} = s.key
    WHERE ({status} = {processing}) IS TRUE AND extract(microseconds FROM {claimed})::int % 1000 = 1000 - $2
    FOR NO KEY UPDATE OF t SKIP LOCKED
)
UPDATE {t} t SET {set_status} = ` + q.putBack() + `
FROM ours o
WHERE t.ctid = o.tid
RETURNING {created}, ` + q.groupColumn())
}

// locked waits for the ends of transactions that change rows. Parameter: keys.
func (q *queueSQL) locked() string {
	return q.fill(`SELECT FROM {t} t WHERE {key} = ANY ($1::{key_type}[]) ORDER BY {key} FOR UPDATE`)
}

// elsewhere finds which rows other sessions have locked, and locks the others as a settle does. Parameter: keys.
func (q *queueSQL) elsewhere() string {
	asked, strength := "unnest($1::{key_type}[]) WITH ORDINALITY AS s(key, n) JOIN {t} t ON {key} = s.key", "NO KEY UPDATE"
	if q.layout.DoneIsDeleted {
		strength = "UPDATE"
	}
	return q.fill("WITH free AS MATERIALIZED (SELECT s.n FROM " + asked + " FOR " + strength + " OF t SKIP LOCKED)\n" +
		"SELECT s.n::int FROM " + asked + " WHERE s.n NOT IN (SELECT f.n FROM free f)")
}

// taken is what a claim writes besides status and time, a template.
func (q *queueSQL) taken() (set string) {
	if q.layout.Columns.Owner != "" {
		set += ", {set_owner} = 'outrider'"
	}
	if updated := q.layout.Columns.Updated; updated != "" && updated != q.layout.Columns.Claimed {
		set += ", {set_updated} = now()"
	}
	return set
}

// ended is what the end of a claim writes, whatever came of it, a template.
func (q *queueSQL) ended() string {
	var set []string
	if q.layout.Columns.Updated != "" {
		set = append(set, "{set_updated} = now()")
	}
	if q.layout.ClaimEnds {
		set = append(set, "{set_claimed} = NULL")
		if q.layout.Columns.Owner != "" {
			set = append(set, "{set_owner} = NULL")
		}
	}
	return strings.Join(set, ", ")
}

// putBack is what a row gets that is put back, from its status on, a template.
func (q *queueSQL) putBack() string {
	if ended := q.ended(); ended != "" {
		return q.waitingAgain() + ", " + ended
	}
	return q.waitingAgain()
}

// waitingAgain is the status of a row that is put back: as if it had never been
// claimed. It is a template.
func (q *queueSQL) waitingAgain() string {
	s := &q.layout.Statuses
	if s.Again() == s.Pending || q.layout.Columns.Attempts == "" {
		return "{is_pending}"
	}
	return "(CASE WHEN {attempts} > 0 THEN {is_retrying} ELSE {is_pending} END)::{status_type}"
}

// count counts the rows that are being processed. Parameter: at most how many.
func (q *queueSQL) count() string {
	return q.fill(`SELECT count(*)::int, coalesce(extract(epoch FROM now() - min(` + wire.Instant("r.claimed") + `)), 0)::float8
FROM (SELECT {claimed} AS claimed FROM {t} t WHERE {status} = {processing} LIMIT $1) r`)
}

// A timestamp may be infinite, or of a year that neither JSON nor Go's clients can carry, and nothing can be subtracted from it. One without a
// time zone says local time: in the hour before clocks go back it is compared as such, or it would be taken for one of the hour after.

const localType = "timestamp without time zone"

// nowOf is the present time for a comparison with a column of a type.
func nowOf(typ string) string {
	if typ == localType {
		return "localtimestamp"
	}
	return "now()"
}

// until is how many seconds are left until a time of a type.
func until(time, typ string) string {
	return "(extract(epoch FROM " + time + ")::float8 - extract(epoch FROM " + nowOf(typ) + ")::float8)"
}

// dueAt is when a row is due that waits for so many seconds, by the server's clock, which decides about it.
const dueAt = "now() + s.wait * interval '1 second'"

// dueValue is what a settle writes for when a row is due. A pause that ends in the hour after is not to look over in this one.
func (q *queueSQL) dueValue() string {
	if q.types.due != localType {
		return dueAt
	}
	return "greatest((" + dueAt + ")::timestamp, localtimestamp + s.wait * interval '1 second')"
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

// groupName is the name of a group, a template. Equal values have one name: 1.5 and 1.50 are the same group.
func (q *queueSQL) groupName(value string) string {
	if q.types.group == "numeric" {
		value = "trim_scale(" + value + ")"
	}
	return value + "::text"
}

// briefLocks bounds the waits of a transaction. SET LOCAL would warn in a batch.
const briefLocks = "SELECT pg_catalog.set_config('lock_timeout', '20ms', true)"
