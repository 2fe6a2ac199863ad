package queuetable

import (
	"fmt"

	"github.com/outriderhq/outrider/adapters/internal/sqltext"
)

// Notes are what a table has no columns for: the failed attempts of a row, when it is due again, the
// last error. They are rows of the state store's table outrider_note, one for each row that has failed and was not
// delivered. A settle writes them in its own transaction, under the fence; a look reads them with the rows. Only
// tables without a column for attempts have notes, and only their statements know of them. See docs/design.md, "Notes beside
// tables".

// noted is the join of a row with its note, a template: that of a row that waits or (dead) of one that was given up.
func (q *queueSQL) noted(dead bool) string {
	if q.notes == "" {
		return ""
	}
	of := "NOT n.dead"
	if dead {
		of = "n.dead"
	}
	return q.joined(of)
}

// notedAny is the join of a row with its note, whatever its status is, a template.
func (q *queueSQL) notedAny() string {
	if q.notes == "" {
		return ""
	}
	return q.joined("n.dead = (({status} IN ({dead})) IS TRUE)")
}

// joined is the join with notes that meet a condition, a template.
func (*queueSQL) joined(condition string) string {
	return "\n     LEFT JOIN {notes} n ON n.queue = {queue} AND n.key = {key}::text AND " + condition
}

// keeps reports whether a column, or a note in its place, says something of a row.
func (q *queueSQL) keeps(column string) bool { return column != "" || q.notes != "" }

// settleNoted is settleHere for rows with a note. A retry changes the note alone.
func (q *queueSQL) settleNoted(o settlement) string {
	with, rows := q.results(o)
	if with += ", "; q.lanes == "" {
		with = "WITH "
	}
	counted := " WHERE s.attempts > 0" // those of an address that was at fault are given back
	settled, dead := "SELECT s.* FROM"+rows+"\nJOIN {t} t ON {key} = s.key\nWHERE ({status} IN ({waiting})) IS TRUE", "false"
	if o.dead {
		write, from := q.writing(o)
		counted = ""
		settled, dead = write+"\n"+from+rows+"\nWHERE {key} = s.key AND ({status} IN ({waiting})) IS TRUE\nRETURNING s.*", "true"
	}
	return q.fill(with+`settled AS MATERIALIZED (
`+settled+`
), noted AS (
    INSERT INTO {notes} AS n (queue, key, attempts, due_at, last_error, dead)
    SELECT {queue}, s.key::text, s.attempts, `+dueAt+`, coalesce(s.error, ''), `+dead+` FROM settled s`+counted+` ORDER BY 2
    ON CONFLICT (queue, key) DO UPDATE SET attempts = EXCLUDED.attempts, dead = EXCLUDED.dead, noted_at = EXCLUDED.noted_at,
        due_at = coalesce(EXCLUDED.due_at, n.due_at), last_error = coalesce(nullif(EXCLUDED.last_error, ''), n.last_error)
), dropped AS (
    DELETE FROM {notes} n USING settled s WHERE n.queue = {queue} AND n.key = s.key::text AND s.attempts = 0 AND NOT `+dead+`
)
SELECT s.n::int FROM settled s`, sqltext.Names{"this": o.this})
}

// forgetNotes deletes the notes of rows that do not wait, or are not dead, as the notes say: we or others have made them final, deleted them or
// sent them again. Parameter: keys.
func (q *queueSQL) forgetNotes() string {
	if q.notes == "" {
		return ""
	}
	return q.fill(`DELETE FROM {notes} n USING unnest($1::text[]) k(key)
WHERE n.queue = {queue} AND n.key = k.key AND NOT EXISTS (
    SELECT FROM {t} t WHERE {key} = k.key::{key_type}
      AND (CASE WHEN n.dead THEN {status} IN ({dead}) ELSE {status} IN ({waiting}) END) IS TRUE)`)
}

// dropNotes is the beginning of a statement that changes rows: it deletes their notes that meet a condition. Parameter: keys.
func (q *queueSQL) dropNotes(condition string) string {
	if q.notes == "" {
		return ""
	}
	return q.fill("WITH dropped AS (DELETE FROM {notes} n WHERE n.queue = {queue} AND n.key = ANY ($1::text[]) AND " + condition + ")\n")
}

// pageOfNotes lists the keys of notes in their order. Parameters: the last key of the page before, limit.
func (q *queueSQL) pageOfNotes() string {
	return q.fill("SELECT n.key FROM {notes} n WHERE n.queue = {queue} AND n.key > $1 ORDER BY n.key LIMIT $2")
}

// fenced are the lanes of a statement that have the epoch which its rows say, as the beginning of it, and the
// condition that a row s is of one of them. Who takes a lane waits for the end of the transaction. Lanes are locked in the order
// in which operators' commands lock them; see [settling.lockLanes].
// Parameters, from number first on: arrays with the route, slot and epoch of each lane.
func (q *queueSQL) fenced(first int) (with, join string) {
	if q.lanes == "" {
		return "", ""
	}
	return fmt.Sprintf(`WITH lanes AS MATERIALIZED (
    SELECT l.n
    FROM unnest($%d::text[], $%d::smallint[], $%d::bigint[]) WITH ORDINALITY AS l(route, slot, epoch, n)
    JOIN %s c ON c.route = l.route AND c.slot = l.slot AND c.epoch = l.epoch
    ORDER BY c.route, c.slot
    FOR SHARE OF c
)
`, first, first+1, first+2, q.lanes), "\n    JOIN lanes ON lanes.n = r.lane"
}

// settle writes one outcome for many rows. Parameters, arrays with one entry per row:
// key, attempts, the number of its lane and, for what is not done, error and in how many
// seconds it is due; then those of the fence. It returns the numbers of the rows that were changed.
func (remembering) settle(q *queueSQL, o settlement) string {
	if q.notes != "" && !o.done {
		return q.settleNoted(o)
	}
	with, rows := q.results(o)
	write, from := q.writing(o)
	return q.fill(with+write+"\n"+from+rows+`
WHERE {key} = s.key AND ({status} IN ({waiting})) IS TRUE
RETURNING s.n::int`, sqltext.Names{"this": o.this})
}

// results are the rows that a settle has, of lanes whose epochs are as they say, and the beginning of the statement; templates.
func (q *queueSQL) results(o settlement) (with, rows string) {
	arrays, columns, next := "", "", 4
	if !o.done {
		arrays, columns, next = ", $4::text[], $5::float8[]", ", error, wait", 6
	}
	with, join := q.fenced(next)
	return with, fmt.Sprintf(` (
    SELECT r.*
    FROM unnest($1::{key_type}[], $2::int[], $3::int[]%s) WITH ORDINALITY AS r(key, attempts, lane%s, n)%s
) s`, arrays, columns, join)
}

// stillWaits finds the rows that wait. Parameter: keys.
func (q *queueSQL) stillWaits() string {
	return q.fill(`SELECT s.n::int FROM unnest($1::{key_type}[]) WITH ORDINALITY AS s(key, n)
JOIN {t} t ON {key} = s.key WHERE ({status} IN ({waiting})) IS TRUE`)
}

// settled finds rows by their keys, the parameter.
func (remembering) settled(q *queueSQL, statuses string) string {
	return q.fill(`SELECT s.n::int FROM unnest($1::{key_type}[]) WITH ORDINALITY AS s(key, n)
LEFT JOIN {t} t ON {key} = s.key WHERE {key} IS NULL OR ({status} IN (` + statuses + `)) IS TRUE`)
}

// waitHere is for how many seconds a row is not to be taken, a template.
func (q *queueSQL) waitHere() string {
	recent := until("({created} + $7::text::float8 * interval '1 s')", q.types.created)
	if q.keeps(q.layout.Columns.NextAttempt) {
		recent = "greatest(" + until("{next_attempt}", q.types.due) + ", " + recent + ")"
	}
	return "coalesce(" + recent + ", 0)"
}
