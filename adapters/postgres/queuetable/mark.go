package queuetable

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/sqltext"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
	"github.com/outriderhq/outrider/adapters/postgres/internal/wire"
)

const (
	// takeAllRows is how many rows make a claim worth a transaction of its own,
	// which takes two further round trips.
	takeAllRows = 256

	// takeAllRest is how many claims are made row by row after another process was at
	// rows of one that was to get all.
	takeAllRest = 64
)

// takeAllOptions are those of the transaction that gets all rows or none: a row that
// was changed meanwhile is an error, and a lock on one is waited for only briefly. Should this process freeze before the commit, the server lets go of the rows.
var takeAllOptions = pgx.TxOptions{BeginQuery: "BEGIN ISOLATION LEVEL REPEATABLE READ; SET LOCAL lock_timeout = '20ms'; " +
	"SET LOCAL idle_in_transaction_session_timeout = '10s'"}

// take claims what was picked.
func (marking) take(ctx context.Context, s *tableClaim) error {
	s.mark = s.q.nextMark()
	marks, err := s.takeAll(ctx)
	if err == nil && marks == nil {
		marks, err = s.takeFree(ctx)
	}
	if err != nil {
		if outcomeUnknown(err) {
			s.keepUnknown()
		}
		return err
	}
	now := time.Now()
	taken := make([]*adapters.Row, len(s.picked))
	s.q.mu.Lock()
	for _, m := range marks {
		taken[m.n] = s.hold(s.picked[m.n], &hold{stamp: m.stamp, at: now}, m.attempts)
	}
	s.q.mu.Unlock()
	for i, row := range taken {
		if row != nil {
			s.rows = append(s.rows, row)
		} else { // another process was faster; the outcome of the row will be seen
			s.table.enterFrom(s.picked[i].visit.group, s.picked[i].created)
		}
	}
	return nil
}

// mark is what a statement did to a row that it claimed.
type mark struct {
	n        int // of picked
	stamp    int64
	attempts int
}

// takeFree claims rows that are not locked: of each group what is before the first row
// of another.
func (s *tableClaim) takeFree(ctx context.Context) ([]mark, error) {
	tids, keys := s.takeVersions()
	var groups, places wire.Array
	number := map[*visit]int{}
	count := map[*visit]int{}
	for i, p := range s.picked {
		group, place := i+1, 1
		if p.visit.group.ordered() {
			if number[p.visit] == 0 {
				number[p.visit] = group
			}
			count[p.visit]++
			group, place = number[p.visit], count[p.visit]
		}
		groups.Number(int64(group))
		places.Number(int64(place))
	}
	return s.marks(s.q.pool.Query(ctx, s.table.text.take, wire.RawResults, tids, keys, groups.String(), places.String(), s.mark))
}

// takeAll claims many rows without locking them first, if it gets them all: nothing
// is claimed behind a row that is another's. Otherwise it claims nothing, returns
// nil, and is not tried for a while.
func (s *tableClaim) takeAll(ctx context.Context) ([]mark, error) {
	if len(s.picked) < s.q.takeAllRows {
		return nil, nil
	}
	if s.table.contended > 0 {
		s.table.contended--
		return nil, nil
	}
	var all []mark
	err := pgx.BeginTxFunc(ctx, s.q.pool, takeAllOptions, func(tx pgx.Tx) (err error) {
		tids, keys := s.takeVersions()
		all, err = s.marks(tx.Query(ctx, s.table.text.takeAll, wire.RawResults, tids, keys, s.mark))
		if err == nil && len(all) < len(s.picked) {
			err = errContended
		}
		return err
	})
	if errors.Is(err, errContended) || pg.FailedWith(err, pg.LockNotAvailable, pg.DeadlockDetected, pg.SerializationFailure) {
		s.table.contended = s.q.takeAllRest
		return nil, nil
	}
	return all, err
}

// errContended is for rows that are not as they were when they were looked at.
var errContended = errors.New("another process changed the rows")

// takeVersions are the arrays of the versions that were looked at.
func (s *tableClaim) takeVersions() (places, keys string) {
	tidArray, keyArray := wire.NewArray(len(s.picked), tidBytes), wire.NewArray(len(s.picked), keyBytes)
	for _, p := range s.picked {
		tidArray.TID(p.tid)
		keyArray.Text(p.row.ID)
	}
	return tidArray.String(), keyArray.String()
}

// marks reads what a statement has claimed.
func (s *tableClaim) marks(rows pgx.Rows, err error) ([]mark, error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := make([]mark, 0, len(s.picked))
	for rows.Next() {
		v := rows.RawValues()
		out = append(out, mark{
			n: int(wire.Int32FromBinary(v[0])) - 1, stamp: wire.Int64FromBinary(v[1]), attempts: int(wire.Int32FromBinary(v[2])),
		})
	}
	return out, rows.Err()
}

func (marking) unfinished(s *Statuses) []string { return append(s.Waiting(), s.Processing) }

func (marking) held(q *queueSQL, members []string) (ranges []string) {
	for _, member := range members {
		ranges = append(ranges, q.branch("= {processing}", member, byCreated))
	}
	return ranges
}

func (marking) looked(q *queueSQL) (claimed, held, wait string) {
	wait = "0::float8"
	if q.layout.Columns.NextAttempt != "" {
		wait = "coalesce(" + until("{next_attempt}", q.types.due) + ", 0)"
	}
	return "CASE WHEN {status} = {processing} THEN {claimed} END", "{status} = {processing}", wait
}

func (marking) attempts(*queueSQL) string { return "" }

func (marking) budget() string { return "$6" }

func (marking) complete(q *queueSQL, t *queueText) {
	t.held, t.take, t.takeAll, t.extend, t.recover, t.unclaim = q.held(), q.take(), q.takeAll(), q.extend(), q.recover(), q.unclaim()
}

func (marking) prepare(context.Context, *Queue, *queueTable) error { return nil }

func (marking) args(*tableClaim) []any { return nil }

func (marking) theirs(s *tableClaim, _ *queueGroup, key string, claimed []byte) bool {
	return claimed == nil || !s.q.ours(s.table, key, wire.Int64FromBinary(claimed))
}

func (marking) failed(*tableClaim, [][]byte) int { return 0 } // the claim reads it

func (marking) owners(*queueTable) owners { return &claimTimes{numbers: map[[2]int64]int{}} }

// claimTimes are the times of the claims of the rows of one statement.
type claimTimes struct {
	numbers         map[[2]int64]int // by stamp and former
	stamps, formers wire.Array
}

func (c *claimTimes) number(_ *adapters.ClaimResult, h *hold) int {
	times := [2]int64{h.stamp, h.former}
	if c.numbers[times] == 0 {
		c.numbers[times] = len(c.numbers) + 1
		c.stamps.Text(timeText(h.stamp))
		c.formers.Text(timeText(h.former))
	}
	return c.numbers[times]
}

func (c *claimTimes) settling(rows *settleRows) []any {
	return []any{rows.keys.String(), c.stamps.String(), c.formers.String(), rows.at.String(), rows.attempts.String()}
}

func (c *claimTimes) asking(rows *settleRows, timeout time.Duration) []any {
	return []any{rows.keys.String(), c.stamps.String(), c.formers.String(), rows.at.String(), timeout.Seconds()}
}

func (*claimTimes) fence() *lanesOf { return nil }

// settled finds the rows that have one of the statuses which a settle wrote, or are gone. They got
// it before anybody could take their claims for stuck. Parameters as of settle: keys, the
// two times of claims, which of the times; and the timeout in seconds.
func (marking) settled(q *queueSQL, statuses string) string {
	since := "{claimed}"
	if q.layout.ClaimEnds {
		since = "{updated}"
	}
	return q.fill(`SELECT s.n::int
FROM (
    SELECT r.*, ($2::{claimed_type}[])[r.at] AS stamp, ($3::{claimed_type}[])[r.at] AS former
    FROM unnest($1::{key_type}[], $4::int[]) WITH ORDINALITY AS r(key, at, n)
) s
LEFT JOIN {t} t ON {key} = s.key
WHERE {key} IS NULL OR ({status} IN (` + statuses + `) AND ` + since + ` >= least(s.stamp, s.former)
    AND ` + since + ` < greatest(s.stamp, s.former) + make_interval(secs => $5)) IS TRUE`)
}

// settle writes one outcome for many rows. Parameters are two arrays of the times
// of which one is a claim's, because one claim has many rows, and others with one
// entry per row: key, which of the times, attempts and, for
// what is not done, error and in how many seconds it is due. It returns the numbers of the rows
// that were still claimed.
func (marking) settle(q *queueSQL, o settlement) string {
	arrays, columns := "", ""
	if !o.done {
		arrays, columns = ", $6::text[], $7::float8[]", ", error, wait"
	}
	write, from := q.writing(o)
	return q.fill(fmt.Sprintf(`%s
%s (
    SELECT r.*, ($2::{claimed_type}[])[r.at] AS stamp, ($3::{claimed_type}[])[r.at] AS former
    FROM unnest($1::{key_type}[], $4::int[], $5::int[]%s) WITH ORDINALITY AS r(key, at, attempts%s, n)
) s
WHERE {key} = s.key AND `+claimed+`
RETURNING s.n::int`, write, from, arrays, columns), sqltext.Names{"this": o.this})
}
