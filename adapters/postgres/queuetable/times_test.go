package queuetable

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pgtest"
	"github.com/outriderhq/outrider/outbox"
)

// extremeTimes are times that PostgreSQL has.
var extremeTimes = []string{"infinity", "-infinity", "4713-01-02 00:00:00 BC", "294276-12-31 23:00:00"}

// A row may have any time: it is claimed, and dead if a message cannot carry the time, or waits for its due time for ever. Rows beside it and
// after it are claimed as if it were not there, and operators see all of them.
func TestG6_RowsOfAnyTime(t *testing.T) {
	t.Parallel()
	base := newQueueEnv(t)
	for name, s := range presetTables {
		columns := []string{s.preset().Queue.Columns.Created}
		if due := s.preset().Queue.Columns.NextAttempt; due != "" {
			columns = append(columns, due)
		}
		for _, column := range columns {
			for _, at := range extremeTimes {
				t.Run(name+" "+column+" "+at, func(t *testing.T) {
					t.Parallel()
					e := base.preset(t, s.preset())
					if name != "flowcatalyst" { // there without an index by age
						_, err := Init(e.ctx, e.pool, e.layout, false, e.tables...)
						pgtest.Must(t, err)
					}
					e.anyTime(t, column, at)
				})
			}
		}
	}
}

// A claim that says of no time that can be computed with when it was made stops no look at the table.
func TestClaimsOfAnyTime(t *testing.T) {
	t.Parallel()
	base := newQueueEnv(t)
	for _, at := range extremeTimes {
		e := base.preset(t, openOutboxSystem.preset())
		_, err := Init(e.ctx, e.pool, e.layout, false, e.tables...)
		pgtest.Must(t, err)
		e.put(e.tables[0].Name, "g")
		e.exec("UPDATE "+e.tables[0].Name+" SET status = 'DELIVERING', locked_at = $1::text::timestamptz", at)
		e.put(e.tables[0].Name, "h")
		q := opened(t, e)
		e.watched(t, q)
		if rows := claimAll(t, q); len(rows) == 0 || len(rows) > 2 {
			t.Errorf("%s: %d rows were claimed", at, len(rows))
		}
	}
}

// put writes a row that waits, with a column for everything.
func (e *queueEnv) put(table, group string) {
	e.t.Helper()
	rows, err := e.pool.Query(e.ctx, "SELECT attname, format_type(atttypid, NULL) FROM pg_attribute WHERE attrelid = $1::text::regclass AND attnum > 0 AND attnotnull", table)
	pgtest.Must(e.t, err)
	c, columns, values := &e.layout.Columns, "", ""
	var name, typ string
	_, err = pgx.ForEachRow(rows, []any{&name, &typ}, func() error {
		value := map[string]string{"uuid": "gen_random_uuid()", "json": "'{}'", "jsonb": "'{}'", "bytea": "'{}'", "timestamp with time zone": "clock_timestamp()",
			"timestamp without time zone": "clock_timestamp()"}[typ]
		switch {
		case name == c.Status:
			value = pg.Literal(e.layout.Statuses.Pending)
		case name == c.Payload:
			value = "'{}'"
		case name == c.Group, value != "", name == c.Key && typ == "bigint":
		case strings.Contains(typ, "int"):
			value = "0"
		default:
			value = "left(gen_random_uuid()::text, 13)"
		}
		if value != "" && name != c.Group {
			columns, values = columns+", "+pg.QuoteName(name), values+", "+value
		}
		return nil
	})
	pgtest.Must(e.t, err)
	e.exec("INSERT INTO "+table+" ("+pg.QuoteName(c.Group)+columns+") VALUES ($1"+values+")", group)
}

// anyTime is the test for a time in a column.
func (e *queueEnv) anyTime(t *testing.T, column, at string) {
	t.Helper()
	table, c := e.tables[0].Name, &e.layout.Columns
	put := func(group int) { e.put(table, fmt.Sprintf("00000000-0000-4000-8000-%012d", group)) }
	put(1)
	e.exec(e.sql(table, "UPDATE {t} SET "+column+" = $1::text::timestamptz"), at)
	q := opened(t, e)
	waits := column == c.NextAttempt && (at == "infinity" || at > "2" && at[len(at)-1] != 'C') // which is not due
	want := 1
	if waits {
		want = 0
	}
	settled := func(rows []*adapters.Row) {
		t.Helper()
		if len(rows) != want {
			t.Fatalf("%d rows were claimed, want %d", len(rows), want)
		}
		for _, row := range rows {
			r := adapters.ClaimResult{Claim: row.Claim, Outcome: outbox.OutcomeDelivered}
			if row.Err != nil {
				r.Outcome, r.Error, r.Attempts = outbox.OutcomeDead, row.Err.Error(), 1
			} else if y := row.CreatedAt.Year(); y < 0 || y > 9999 {
				t.Errorf("a message cannot carry %v", row.CreatedAt)
			}
			settle(t, q, r)
		}
	}
	put(2)
	want++
	e.watched(t, q)
	settled(claimAll(t, q))
	for i := range 3 {
		put(3 + i)
		want = 1
		settled(claimAll(t, q))
	}
	e.watched(t, q)
	e.exec(e.sql(table, "UPDATE {t} SET "+column+" = $1::text::timestamptz"), at) // those that are finished, too
	e.watched(t, q)
	e.exec("DELETE FROM " + table)
	put(6)
	settled(claimAll(t, q))
}

// watched takes every look of operators at the table.
func (e *queueEnv) watched(t *testing.T, q *Queue) {
	t.Helper()
	_, unfinished := q.Unfinished(e.ctx, 100)
	_, processing := q.Processing(e.ctx, 100)
	dead, listed := q.Dead(e.ctx, adapters.DeadFilter{Payload: true, Before: time.Now().Add(time.Hour), Limit: 100})
	_, _, counted := q.CountDead(e.ctx, 100, false)
	waiting, aged := q.WaitingByAge(e.ctx, adapters.DeadKey{}, 100)
	if errors.Is(aged, errors.ErrUnsupported) {
		aged = nil
	}
	found := error(nil)
	for _, row := range dead {
		_, err := q.Find(e.ctx, row.Row.ID, 10)
		found = errors.Join(found, err, carried(row.Died), carried(row.Row.CreatedAt))
	}
	for _, row := range waiting {
		at, err := q.Find(e.ctx, row.At.Key, 10)
		found = errors.Join(found, err, carried(row.Due))
		for _, f := range at.Rows {
			found = errors.Join(found, carried(f.Due), carried(f.Row.CreatedAt), carried(f.Done), carried(f.Changed))
		}
	}
	_, recovered := q.Recover(e.ctx)
	if err := errors.Join(unfinished, processing, listed, counted, aged, found, recovered); err != nil {
		t.Fatal(err)
	}
	if f := findings(t, q); f == "" {
		t.Error("the doctor finds nothing")
	}
}

// carried refuses a time that JSON cannot have.
func carried(at time.Time) error {
	_, err := at.MarshalJSON()
	return err
}

// In the hour before clocks go back a local time is that of this hour, not of the next, which has the same.
func TestG13_ARetryInTheHourThatComesTwice(t *testing.T) {
	t.Parallel()
	base := newQueueEnv(t)
	back := time.Now().UTC().Add(10 * time.Minute)
	local := back.Add(2 * time.Hour) // by summer time
	base.exec(fmt.Sprintf("DO $do$ BEGIN EXECUTE format('ALTER DATABASE %%I SET timezone = ''<WIN>-1<SUM>-2,J1/0,J%d/%s''', current_database()); END $do$", yearDay(local), local.Format("15:04:05")))
	e := base.typed(t, "key", "text")
	e.exec("ALTER TABLE " + e.tables[0].Name + " ALTER made TYPE timestamp, ALTER taken TYPE timestamp, ALTER next_at TYPE timestamp, ALTER done_at TYPE timestamp")
	_, err := Init(e.ctx, e.pool, e.layout, false, e.tables...)
	pgtest.Must(t, err)
	e.exec("INSERT INTO " + e.tables[0].Name + " (id, grp) VALUES ('soon', 'a'), ('later', 'b'), ('last', 'c')")
	q := opened(t, e)
	due := map[string]time.Duration{"soon": 10 * time.Millisecond, "later": 5 * time.Minute, "last": 20 * time.Minute}
	for _, row := range claimAll(t, q) {
		settle(t, q, adapters.ClaimResult{Claim: row.Claim, Outcome: outbox.OutcomeRetry, Attempts: 1, Error: "no", At: time.Now().Add(due[row.ID])})
	}
	var got []string
	for end := time.Now().Add(20 * time.Second); len(got) == 0 && time.Now().Before(end); {
		for _, row := range claimAll(t, q) {
			got = append(got, row.ID)
		}
	}
	if len(got) != 1 || got[0] != "soon" {
		t.Errorf("due are %q", got)
	}
	var left float64
	pgtest.Must(t, q.pool.QueryRow(e.ctx, "SELECT extract(epoch FROM next_at - localtimestamp)::float8 FROM "+e.tables[0].Name+" WHERE id = 'last'").Scan(&left))
	if left < 15*60 {
		t.Errorf("the last one is due in %v s, sooner than its pause", left)
	}
}

// yearDay is a day as a time zone's rule counts it: without February 29.
func yearDay(at time.Time) int {
	day := at.YearDay()
	if leap := time.Date(at.Year(), 2, 29, 0, 0, 0, 0, time.UTC).Month() == time.February; leap && at.Month() > time.February {
		day--
	}
	return day
}
