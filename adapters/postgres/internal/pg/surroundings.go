package pg

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider/adapters"
)

const (
	// longOpen is the age from which an open transaction is reported.
	longOpen = 5 * time.Minute

	// openSQL lists what keeps old row versions and snapshots from going away.
	// Other databases of the cluster do not matter.
	openSQL = `
SELECT 'transaction', format('pid %s (%s, user %s, %s)', a.pid, coalesce(nullif(a.application_name, ''), 'no name'), a.usename, a.state),
       extract(epoch FROM clock_timestamp() - a.xact_start)::bigint,
       CASE WHEN o.id = '' THEN format('SELECT pg_terminate_backend(%s)', a.pid)
            ELSE format('outrider transactions end %s (without Outrider: SELECT pg_terminate_backend(%s))', o.id, a.pid) END, o.id
FROM pg_stat_activity a CROSS JOIN LATERAL (SELECT CASE WHEN ` + others + ` THEN ` + transactionID + ` ELSE '' END AS id) o
WHERE a.datname = current_database() AND a.pid <> pg_backend_pid() AND a.xact_start < clock_timestamp() - make_interval(secs => $1)
UNION ALL
SELECT 'prepared transaction', format('%s (owner %s)', p.gid, p.owner),
       extract(epoch FROM clock_timestamp() - p.prepared)::bigint, format('COMMIT PREPARED or ROLLBACK PREPARED %L', p.gid), ''
FROM pg_prepared_xacts p WHERE p.database = current_database() AND p.prepared < clock_timestamp() - make_interval(secs => $1)
UNION ALL
SELECT 'replication slot', format('%s (%s)', r.slot_name, CASE WHEN r.active THEN 'active' ELSE 'nobody uses it' END),
       0, format('SELECT pg_drop_replication_slot(%L), if nobody needs it', r.slot_name), ''
FROM pg_replication_slots r
WHERE r.xmin IS NOT NULL AND (NOT r.active OR age(r.xmin) > 1000000)
ORDER BY 3 DESC LIMIT 20`

	// hiddenSQL counts sessions of others that we are not shown.
	hiddenSQL = `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state IS NULL AND backend_type = 'client backend'`

	upkeepSQL = `
SELECT current_setting('autovacuum') = 'on' AND NOT coalesce('autovacuum_enabled=false' = ANY(c.reloptions), false),
       greatest(t.last_analyze, t.last_autoanalyze), coalesce(t.n_dead_tup, 0), coalesce(t.n_live_tup, 0)
FROM pg_class c LEFT JOIN pg_stat_all_tables t ON t.relid = c.oid WHERE c.oid = to_regclass($1)`
)

// ExamineSurroundings looks at what others do to the table and the database.
func ExamineSurroundings(ctx context.Context, pool *pgxpool.Pool, table string) []adapters.Finding {
	return append(ExamineOpen(ctx, pool), ExamineUpkeep(ctx, pool, table)...)
}

// ExamineOpen looks for transactions, prepared ones and replication slots that keep
// old row versions.
func ExamineOpen(ctx context.Context, pool *pgxpool.Pool) []adapters.Finding {
	const subject = "long-open transactions"
	rows, err := pool.Query(ctx, openSQL, longOpen.Seconds())
	if err != nil {
		return []adapters.Finding{Unknown(subject, err)}
	}
	var f []adapters.Finding
	var kind, who, fix, transaction string
	var seconds int64
	_, err = pgx.ForEachRow(rows, []any{&kind, &who, &seconds, &fix, &transaction}, func() error {
		text := fmt.Sprintf("%s %s keeps an old snapshot", kind, who)
		if seconds > 0 {
			text = fmt.Sprintf("%s %s has been open for %v", kind, who, (time.Duration(seconds) * time.Second).String())
		}
		f = append(f, adapters.Finding{Level: adapters.LevelWarning, Subject: subject,
			Text: text + ": its rows are not delivered before it ends, and dead row versions cannot be removed", Fix: fix, Transaction: transaction})
		return nil
	})
	if err != nil {
		return []adapters.Finding{Unknown(subject, err)}
	}
	var hidden int
	if err := pool.QueryRow(ctx, hiddenSQL).Scan(&hidden); err == nil && hidden > 0 {
		f = append(f, adapters.Finding{Level: adapters.LevelUnknown, Subject: subject,
			Text: fmt.Sprintf("%d sessions of other roles cannot be inspected", hidden), Fix: "GRANT pg_read_all_stats to the role, to have them checked too"})
	}
	if len(f) == 0 {
		return []adapters.Finding{Fine(subject, fmt.Sprintf("none older than %v, no prepared transaction, no replication slot that holds rows", longOpen))}
	}
	return f
}

// ExamineUpkeep looks at autovacuum and the statistics of a table.
func ExamineUpkeep(ctx context.Context, pool *pgxpool.Pool, table string) []adapters.Finding {
	const subject = "autovacuum and statistics"
	var on bool
	var analysed *time.Time
	var dead, live int64
	err := pool.QueryRow(ctx, upkeepSQL, table).Scan(&on, &analysed, &dead, &live)
	switch {
	case errors.Is(err, pgx.ErrNoRows): // there is no such table, which another finding reports
		return nil
	case err != nil:
		return []adapters.Finding{Unknown(subject, err)}
	}
	if !on {
		return []adapters.Finding{{Level: adapters.LevelWarning, Subject: subject, Text: "autovacuum is off: dead rows and old transaction ids stay",
			Fix: fmt.Sprintf("ALTER SYSTEM SET autovacuum = on, or ALTER TABLE %s RESET (autovacuum_enabled)", table)}}
	}
	text := []string{"autovacuum is on", fmt.Sprintf("about %d rows, %d dead", live, dead)}
	if analysed == nil {
		text = append(text, "never analysed (reading does not depend on it)")
	} else {
		text = append(text, "analysed "+analysed.UTC().Format(time.RFC3339))
	}
	if dead > live && dead > 1_000_000 {
		return []adapters.Finding{{Level: adapters.LevelWarning, Subject: subject, Text: strings.Join(text, "; "), Fix: "VACUUM " + table + "; if it removes nothing, look for what holds an old snapshot"}}
	}
	return []adapters.Finding{Fine(subject, strings.Join(text, "; "))}
}
