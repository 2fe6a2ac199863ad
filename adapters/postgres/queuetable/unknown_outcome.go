package queuetable

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outriderhq/outrider/adapters/postgres/internal/wire"
)

// A connection that ends between the server's commit and its answer leaves open
// what became of a statement. A settle is looked for in its rows when it is
// repeated. The rows of a claim are recognised by the last three digits of their time, in
// microseconds, which the claim chose, and put back by the next one.

const (
	// claimMarks is how many marks there are, from 1: a claim's time is as many
	// microseconds before a whole millisecond. A column or another processor that keeps
	// milliseconds only has none of them.
	claimMarks = 999

	// unknownClaimsMost bounds the claims that are remembered because their outcome is
	// not known. The rows of others wait for Recover.
	unknownClaimsMost = 64
)

// unknownClaim is a claim whose outcome is not known.
type unknownClaim struct {
	table  *queueTable
	mark   int
	keys   []string
	at     time.Time
	looked bool
}

// nextMark returns a mark that the last claims did not have. The caller has claiming.
func (q *Queue) nextMark() int {
	q.mark = q.mark%claimMarks + 1
	return q.mark
}

// outcomeUnknown reports whether a statement may have been carried out although it
// returned an error: it was sent, and the server did not answer that it failed.
func outcomeUnknown(err error) bool {
	var refused *pgconn.PgError
	return err != nil && !errors.As(err, &refused) && !errors.Is(err, pgx.ErrTxCommitRollback) && !pgconn.SafeToRetry(err)
}

// keepUnknown remembers the rows that a claim may have taken.
func (s *tableClaim) keepUnknown() {
	keys := make([]string, len(s.picked))
	for i, p := range s.picked {
		keys[i] = p.row.ID
	}
	if len(s.q.unknownOutcomes) == unknownClaimsMost {
		s.q.unknownOutcomes = s.q.unknownOutcomes[1:]
	}
	s.q.unknownOutcomes = append(s.q.unknownOutcomes, &unknownClaim{table: s.table, mark: s.mark, keys: keys, at: time.Now()})
}

// findUnknown puts back what claims took whose outcome is not known. The server
// may have been slower than the next claim, so it is done again with each Recover until the
// rows would count as stuck anyway. The caller has claiming.
func (q *Queue) findUnknown(ctx context.Context, again bool) error {
	kept := q.unknownOutcomes[:0]
	var failed error
	for _, u := range q.unknownOutcomes {
		if failed == nil && (again || !u.looked) {
			failed = q.putBackUnknown(ctx, u)
			u.looked = failed == nil
		}
		if !u.looked || time.Since(u.at) < q.timeout {
			kept = append(kept, u)
		}
	}
	clear(q.unknownOutcomes[len(kept):])
	q.unknownOutcomes = kept
	return failed
}

func (q *Queue) putBackUnknown(ctx context.Context, u *unknownClaim) error {
	t := u.table
	var keys wire.Array
	q.mu.Lock()
	for _, key := range u.keys {
		if t.holds[key] == nil {
			keys.Text(key)
		}
	}
	q.mu.Unlock()
	n, err := q.putBack(ctx, t, t.text.unclaim, keys.String(), u.mark)
	if err != nil {
		return err
	}
	if n > 0 {
		q.log.WarnContext(ctx, "a claim had been committed although its answer was lost; its rows were put back and are claimed again",
			"table", t.name, "rows", n)
	}
	return nil
}
