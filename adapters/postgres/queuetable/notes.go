package queuetable

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters/internal/sqltext"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
)

// Notes are what a table has no columns for: the failed attempts of a row, when it is due again, the
// last error. They are rows of the state store's table outrider_note, one for each row that has failed and was not
// delivered. A settle writes them in its own transaction, under the fence; a look reads them with the rows. Only
// tables without a column for attempts have notes, and only their statements know of them. See docs/design.md, "Notes beside
// tables".

// noteTable is the state store's table of notes.
var noteTable = pgx.Identifier{"outrider_note"}

// notePage is how many notes one Recover looks at.
const notePage = 1000

// errNotesElsewhere refuses a table that needs notes without a place for them.
var errNotesElsewhere = errors.New("the table has no columns for attempts, the time of the next one and errors, so they are kept in the " +
	"state store, in the transaction that settles a row: the state store must be in the table's database; remove state.url, or have it name that database")

// findNotes looks up the table of notes, once. The caller has claiming.
func (q *Queue) findNotes(ctx context.Context, t *queueTable) error {
	if !t.sql.layout.Noted() || t.sql.notes != "" {
		return nil
	}
	return q.locate(ctx, t, noteTable, &t.sql.notes)
}

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

// endNotes adds the statements that delete the notes of rows that were delivered. A row that has not failed has none.
func (s *settling) endNotes(batch *pgx.Batch) {
	for _, rows := range s.order {
		if rows.forgetNotes != "" {
			batch.Queue(rows.forgetNotes, rows.noted.String())
		}
	}
}

// expireNotes deletes notes whose rows others have made final, deleted or sent again: a page of them in each call.
func (q *Queue) expireNotes(ctx context.Context, t *queueTable) error {
	if !t.sql.layout.Noted() {
		return nil
	}
	if err := q.findNotes(ctx, t); err != nil {
		return err
	}
	rows, err := q.pool.Query(ctx, t.sql.pageOfNotes(), t.notesFrom, notePage)
	if err != nil {
		return err
	}
	keys, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	if len(keys) > 0 {
		if _, err := q.pool.Exec(ctx, t.sql.forgetNotes(), keys); err != nil {
			return err
		}
	}
	if t.notesFrom = ""; len(keys) == notePage {
		t.notesFrom = keys[notePage-1]
	}
	return nil
}

// lookUpNotes is findNotes for operators' commands: a state store that was not made yet, or by an earlier version, has no notes.
func (q *Queue) lookUpNotes(ctx context.Context, t *queueTable) error {
	err := q.findNotes(ctx, t)
	if pg.FailedWith(err, pg.UndefinedTable, pg.InvalidSchema) {
		return nil
	}
	return err
}
