package queuetable

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// The statement of the hot path runs in the application's session, whose settings are the application's. Where the planner's statistics are
// from a time when all rows were done, it takes what waits for next to nothing, and reads all of it in place of the group's range. So claims,
// and INSERTs beside which no claim runs, have it looked at once a second whether more than that waits, and how the planner would read a group;
// while it would read everything, the hot path rests.
// No shape of the query prevents this: the indexes by group and by age have the same rows.

const (
	// hotBacklog is how many rows may wait that an INSERT of the hot path reads for want of a better plan.
	hotBacklog = 1000

	// hotGuardPause is the least time between two such looks.
	hotGuardPause = time.Second
)

// asByDefault gives the settings that decide about a plan their values of the server, the database and the role.
var asByDefault = "SET LOCAL max_parallel_workers_per_gather TO DEFAULT; SET LOCAL " + strings.Join(pinnedPlans, " TO DEFAULT; SET LOCAL ") + " TO DEFAULT"

// guardDue reports whether the hot path is to be guarded now, which the caller then does. It has the queue's lock.
func (h *hotRows) guardDue() bool {
	if h.done == nil || h.text.backlog == "" || h.looking || time.Since(h.guarded) < hotGuardPause {
		return false
	}
	h.looking, h.guarded = true, time.Now()
	return true
}

// guardBesideClaims guards the hot path if that is due. The caller has claiming.
func (q *Queue) guardBesideClaims(ctx context.Context) {
	q.mu.Lock()
	due := q.hot.guardDue()
	q.mu.Unlock()
	if due {
		q.guardHot(ctx)
	}
}

// guardHot has the hot path rest while its statements would read a backlog.
func (q *Queue) guardHot(ctx context.Context) {
	q.mu.Lock()
	h := &q.hot
	text, rested := h.text, h.rests
	q.mu.Unlock()
	rests, err := q.hotReadsBacklog(ctx, &text)
	rests = rests || err != nil
	q.mu.Lock()
	h.looking, h.rests = false, rests
	q.mu.Unlock()
	switch {
	case err != nil && !rested && ctx.Err() == nil:
		q.log.WarnContext(ctx, "the hot path rests until its cost is known: committed rows are left to polls", "error", err)
	case rests && !rested:
		q.log.WarnContext(ctx, "the hot path rests, because the statistics of the table are older than what waits in it, so that each INSERT would read all of it: "+
			"committed rows are left to polls until autovacuum, or you, run ANALYZE", "table", q.tables[0].name)
	case rested && !rests:
		q.log.InfoContext(ctx, "the hot path works again", "table", q.tables[0].name)
	}
}

// hotReadsBacklog reports whether many rows wait and the look at a group, as the application's session plans it, reads all of them.
func (q *Queue) hotReadsBacklog(ctx context.Context, text *hotText) (reads bool, err error) {
	var waiting int
	if err := q.pool.QueryRow(ctx, text.backlog).Scan(&waiting); err != nil || waiting < hotBacklog {
		return false, err
	}
	err = pgx.BeginFunc(ctx, q.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, asByDefault); err != nil {
			return err
		}
		var plan []byte
		if err := tx.QueryRow(ctx, text.explain).Scan(&plan); err != nil {
			return err
		}
		reads = strings.Contains(string(plan), `"Sort Key"`) // only the index by group has the order
		return nil
	})
	return reads, err
}
