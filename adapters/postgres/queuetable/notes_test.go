package queuetable

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/layout"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pgtest"
	"github.com/outriderhq/outrider/outbox"
)

// yantra makes Yantra's table with our indexes, and lanes of the route "suite".
func (e *queueEnv) yantra(t testing.TB) *queueEnv {
	t.Helper()
	e = e.preset(t, layout.Yantra())
	_, err := Init(e.ctx, e.pool, e.layout, true, e.tables...)
	pgtest.Must(t, err)
	e.exec("INSERT INTO " + e.fence.of(cursorTable).Sanitize() + " SELECT 'suite', s, 1 FROM generate_series(0, 15) s")
	return e
}

// waiting inserts a row of an aggregate, created so long ago.
func (e *queueEnv) waiting(n int, aggregate string, ago time.Duration) {
	e.t.Helper()
	e.each(`INSERT INTO {t} VALUES ($1, $2, 'workflow_execution', 'workflow.triggered', '{}', 'pending', now() - make_interval(secs => $3))`,
		yantraSystem.id(n), aggregate, ago.Seconds())
}

// notes are the notes, as text.
func (e *queueEnv) notes() string {
	e.t.Helper()
	var all []string
	rows, err := e.pool.Query(e.ctx, "SELECT right(key, 1) || ' ' || attempts || ' ' || last_error || CASE WHEN dead THEN ' dead' ELSE '' END FROM "+
		e.fence.of(noteTable).Sanitize()+" ORDER BY queue, key")
	pgtest.Must(e.t, err)
	all, err = pgx.CollectRows(rows, pgx.RowTo[string])
	pgtest.Must(e.t, err)
	return strings.Join(all, "; ")
}

func (e *queueEnv) wantNotes(want string) {
	e.t.Helper()
	if got := e.notes(); got != want {
		e.t.Errorf("the notes are %q, want %q", got, want)
	}
}

// What a table has no columns for outlives a restart: attempts, the pause, with everything of the group behind the row, and the error of a dead
// row. A delivered row leaves nothing.
func TestG2_NotesKeepWhatTheTableHasNoColumnsFor(t *testing.T) {
	t.Parallel()
	e := newQueueEnv(t).yantra(t)
	e.waiting(1, "a", 3*time.Second)
	e.waiting(2, "a", 2*time.Second)
	e.waiting(3, "b", time.Second)
	q := opened(t, e)
	rows := claimAll(t, q)
	if len(rows) != 3 {
		t.Fatalf("claimed %v", ids(rows))
	}
	byID := func(rows []*adapters.Row, n int) *adapters.Row {
		return rows[slices.IndexFunc(rows, func(r *adapters.Row) bool { return r.ID == yantraSystem.id(n) })]
	}
	ended(t, q, outbox.OutcomeRetry, 1, time.Now().Add(time.Hour), byID(rows, 1))
	ended(t, q, outbox.OutcomeReleased, 0, time.Time{}, byID(rows, 2))
	ended(t, q, outbox.OutcomeDelivered, 0, time.Time{}, byID(rows, 3))
	e.wantNotes("1 1 refused")

	q = opened(t, e) // as after a crash
	if rows := claimAll(t, q); len(rows) > 0 {
		t.Fatalf("claimed %v while the first row of the group waits for its next attempt", ids(rows))
	}
	if q.Coverage().Due.IsZero() {
		t.Error("the queue does not say when something is due")
	}
	e.exec("UPDATE " + e.fence.of(noteTable).Sanitize() + " SET due_at = now()")
	q = opened(t, e)
	rows = claimAll(t, q)
	if len(rows) != 2 || rows[0].ID != yantraSystem.id(1) || rows[0].Claim.Attempts != 1 || rows[1].Claim.Attempts != 0 {
		t.Fatalf("claimed %+v, want both rows in order, with one attempt of the first", rows)
	}
	ended(t, q, outbox.OutcomeDelivered, 1, time.Time{}, rows[0])
	ended(t, q, outbox.OutcomeDead, 1, time.Time{}, rows[1])
	e.wantNotes("2 1 refused dead")
	dead, err := q.Dead(e.ctx, adapters.DeadFilter{Error: "REFUSED"})
	pgtest.Must(t, err)
	if len(dead) != 1 || dead[0].Attempts != 1 || dead[0].Error != "refused" || time.Since(dead[0].Died) > time.Hour {
		t.Errorf("dead are %+v", dead)
	}
}

// Whoever has lost a lane writes no note and deletes none.
func TestG3_NotesAreFenced(t *testing.T) {
	t.Parallel()
	e := newQueueEnv(t).yantra(t)
	e.waiting(1, "a", time.Second)
	e.waiting(2, "b", time.Second)
	former, next := opened(t, e), opened(t, e)
	rows := claimAll(t, former)
	again := claimAll(t, next)
	e.exec("UPDATE " + e.fence.of(cursorTable).Sanitize() + " SET epoch = 2 WHERE route = 'suite'")
	for _, row := range again {
		lost, err := next.Settle(e.ctx, []adapters.ClaimResult{{Claim: row.Claim, Outcome: outbox.OutcomeRetry, Attempts: 1, Error: "new",
			Lane: adapters.LaneRef{Route: "suite", Slot: row.Slot}, Epoch: 2}})
		if err != nil || len(lost) > 0 {
			t.Fatalf("the owner's settle: %v, %v", lost, err)
		}
	}
	for i, outcome := range []outbox.Outcome{outbox.OutcomeRetry, outbox.OutcomeDelivered} {
		rows[i].Claim.Attempts = 1 // as if it had failed before
		lost, err := former.Settle(e.ctx, []adapters.ClaimResult{{Claim: rows[i].Claim, Outcome: outcome, Attempts: 7, Error: "old",
			Lane: adapters.LaneRef{Route: "suite", Slot: rows[i].Slot}, Epoch: 1}})
		if err != nil || len(lost) != 1 {
			t.Errorf("%v of the former owner: lost %v, %v", outcome, lost, err)
		}
	}
	e.wantNotes("1 1 new; 2 1 new")
}

// What others do to a row ends its note: at once for a row that they send again, and with the next rounds for those that they finish or delete.
func TestNotesFollowForeignHands(t *testing.T) {
	t.Parallel()
	e := newQueueEnv(t).yantra(t)
	for n := range 5 {
		e.waiting(n, strconv.Itoa(n), time.Second)
	}
	q := opened(t, e)
	for _, row := range claimAll(t, q) {
		outcome := outbox.OutcomeRetry
		if row.ID >= yantraSystem.id(3) {
			outcome = outbox.OutcomeDead
		}
		ended(t, q, outcome, 4, time.Now().Add(time.Hour), row)
	}
	e.wantNotes("0 4 refused; 1 4 refused; 2 4 refused; 3 4 refused dead; 4 4 refused dead")
	e.each("UPDATE {t} t SET status = 'processed' WHERE id = $1", yantraSystem.id(0)) // the original's
	e.each("DELETE FROM {t} t WHERE id = $1", yantraSystem.id(1))
	e.each("UPDATE {t} t SET status = 'pending' WHERE id = $1", yantraSystem.id(3))
	_, err := q.Recover(e.ctx)
	pgtest.Must(t, err)
	e.wantNotes("2 4 refused; 4 4 refused dead")
	dead, err := q.Dead(e.ctx, adapters.DeadFilter{})
	if err != nil || len(dead) != 1 {
		t.Fatalf("dead are %+v, %v", dead, err)
	}
	n, err := q.ChangeDead(e.ctx, adapters.ParkedRedrive, []adapters.DeadKey{dead[0].At}, unrecorded)
	if err != nil || n != 1 {
		t.Errorf("redrove %d, %v", n, err)
	}
	e.wantNotes("2 4 refused")
	rows := claimAll(t, opened(t, e)) // which reads everything, at once
	if got := ids(rows); len(got) != 2 || got[0] != yantraSystem.id(3) || got[1] != yantraSystem.id(4) || rows[0].Claim.Attempts+rows[1].Claim.Attempts != 0 {
		t.Errorf("claimed %v, want the two that were sent again, as for their first attempt", got)
	}
}

// A dead row that somebody makes wait again before a round begins anew: its note is not that of a row that waits.
func TestADeadRowThatWaitsAgainBeginsAnew(t *testing.T) {
	t.Parallel()
	e := newQueueEnv(t).yantra(t)
	e.waiting(1, "a", time.Second)
	q := opened(t, e)
	ended(t, q, outbox.OutcomeDead, 9, time.Time{}, claimAll(t, q)...)
	e.each("UPDATE {t} t SET status = 'pending'")
	q = opened(t, e)
	rows := claimAll(t, q)
	if len(rows) != 1 || rows[0].Claim.Attempts != 0 {
		t.Fatalf("claimed %+v", rows)
	}
	ended(t, q, outbox.OutcomeRetry, 1, time.Now().Add(time.Hour), rows...)
	e.wantNotes("1 1 refused")
}

// Attempts that turn out to be the fault of a row's address leave no note.
func TestNotesOfAttemptsThatAreGivenBack(t *testing.T) {
	t.Parallel()
	e := newQueueEnv(t).yantra(t)
	e.waiting(1, "a", time.Second)
	q := opened(t, e)
	ended(t, q, outbox.OutcomeRetry, 2, time.Now(), claimAll(t, q)...)
	for _, want := range []string{"1 1 refused", ""} {
		q = opened(t, e)
		rows := claimAll(t, q)
		if len(rows) != 1 {
			t.Fatalf("claimed %v", ids(rows))
		}
		ended(t, q, outbox.OutcomeReleased, rows[0].Claim.Attempts-1, time.Time{}, rows...)
		e.wantNotes(want)
	}
}

// A delivery in the transaction that settles deletes the note in it, or not if it is rolled back.
func TestG3_NotesGoWithTheDelivery(t *testing.T) {
	t.Parallel()
	e := newQueueEnv(t).yantra(t)
	e.waiting(1, "a", time.Second)
	q := opened(t, e)
	ended(t, q, outbox.OutcomeRetry, 1, time.Now(), claimAll(t, q)...)
	q = opened(t, e)
	rows := claimAll(t, q)
	if len(rows) != 1 {
		t.Fatalf("claimed %v", ids(rows))
	}
	results := []adapters.ClaimResult{{Claim: rows[0].Claim, Outcome: outbox.OutcomeDelivered, Lane: adapters.LaneRef{Route: "suite", Slot: rows[0].Slot}, Epoch: 1}}
	refused := errors.New("refused")
	if _, err := q.Transact(e.ctx, results, func(context.Context, any) error { return refused }); !errors.Is(err, refused) {
		t.Errorf("the error is %v", err)
	}
	e.wantNotes("1 1 refused")
	lost, err := q.Transact(e.ctx, results, func(context.Context, any) error { return nil })
	if err != nil || len(lost) > 0 {
		t.Errorf("lost %v, %v", lost, err)
	}
	e.wantNotes("")
}

// Without the state store beside the table there is no place for notes.
func TestATableThatNeedsNotesIsRefusedWithoutAPlaceForThem(t *testing.T) {
	t.Parallel()
	of := layout.Yantra().Queue
	_, err := New(t.Context(), Config{URL: "postgres://u@127.0.0.1/db", Layout: *of, Tables: of.Tables})
	pgtest.WantError(t, err, "the state store must be in the table's database; remove state.url")
}

// TestG8_TablesWithTheColumnsHaveNoNotes: their statements ask for none, so a look costs what it did.
func TestG8_TablesWithTheColumnsHaveNoNotes(t *testing.T) {
	t.Parallel()
	for _, p := range layout.All() {
		if p.Queue == nil {
			continue
		}
		q := newSQL("t", p.Queue)
		if p.Queue.Noted() {
			q.notes = "outrider_note"
		}
		text := q.text(queueIndexes{whole: true, aged: true})
		if got := strings.Contains(text.look+text.retry+text.done+text.forgetNotes, "outrider_note"); got != (p.Name == "yantra") {
			t.Errorf("layout %s: notes in its statements: %t", p.Name, got)
		}
	}
}
