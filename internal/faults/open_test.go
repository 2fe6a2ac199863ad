package faults_test

import (
	"net/http"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/internal/faults/check"
	"github.com/outriderhq/outrider/internal/testenv"
)

func TestG5_OpenTransactionsDelayNobody(t *testing.T) {
	t.Parallel()
	db, other := newDatabase(t), newDatabase(t)
	to := receive(t, nil)
	elsewhere, err := other.pool.Begin(t.Context())
	must(t, err)
	defer func() { _ = elsewhere.Rollback(t.Context()) }()
	must(t, insert(t.Context(), elsewhere, "elsewhere", 3)) // with an xid of its own

	r := start(t, settings{database: db.url, destination: toHTTP(to.url())}.text())
	open, err := db.pool.Begin(t.Context())
	must(t, err)
	defer func() { _ = open.Rollback(t.Context()) }()
	must(t, insert(t.Context(), open, "late", 700))

	// Everything that is committed behind the open rows arrives, in several
	// reads and settles, while they are open.
	const rounds = 5
	for i := range rounds {
		db.fill(batch{n: 400, groups: 40})
		r.until("delivered what was committed", func() bool { return to.arrived() >= 400*(i+1) })
	}
	if n := one[int](db, "SELECT count(*) FROM outrider_outbox WHERE message_group = 'late'"); n != 0 {
		t.Fatalf("%d rows of the open transaction are visible", n)
	}
	must(t, open.Commit(t.Context()))
	r.until("delivered the late rows", func() bool { return to.arrived() >= 400*rounds+700 })
	must(t, elsewhere.Commit(t.Context()))
	r.stop()
	report := check.Compare(db.rows(), to.all()...)
	t.Logf("2 open transactions: %v", report)
	if !report.Clean() || report.Duplicates > 0 {
		t.Errorf("not clean: %v", report)
	}
}

// ourSessions counts what the relay's own sessions hold.
const ourSessions = `
SELECT count(*) FILTER (WHERE state <> 'idle' OR xact_start IS NOT NULL OR backend_xmin IS NOT NULL),
       (SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid)
        WHERE a.datname = current_database() AND a.application_name <> 'observer' AND l.locktype <> 'advisory'),
       count(*)
FROM pg_stat_activity
WHERE datname = current_database() AND application_name <> 'observer'`

func TestG4_NoTransactionIsOpenDuringDelivery(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t)
	db := openDatabase(t, url)
	release := make(chan struct{})
	to := receive(t, func(req *http.Request, _ []payload) int {
		select {
		case <-release:
		case <-req.Context().Done():
		}
		return http.StatusOK
	})
	db.fill(batch{n: 100, groups: 10})
	db.pool.Close() // what is left are the relay's sessions
	cfg, err := pgx.ParseConfig(url)
	must(t, err)
	cfg.RuntimeParams["application_name"] = "observer"
	observer, err := pgx.ConnectConfig(t.Context(), cfg)
	must(t, err)
	defer func() { must(t, observer.Close(t.Context())) }()

	// Reading and renewing continue meanwhile, so that some looks meet a statement;
	// a transaction that lasted as long as a delivery would be met by all.
	r := start(t, settings{database: url, destination: toHTTP(to.url()), poll: "{min: 100ms, max: 1s}"}.text())
	r.until("delivers", to.asked.Load)
	const enough = 20
	quiet, looks := 0, 0
	r.until("holds nothing while deliveries hang", func() bool {
		var busy, locks, sessions int
		must(t, observer.QueryRow(t.Context(), ourSessions).Scan(&busy, &locks, &sessions))
		looks++
		if busy == 0 && locks == 0 && sessions > 0 {
			quiet++
		}
		return quiet == enough
	})
	t.Logf("1 hanging receiver, 0 of 100 messages delivered: %d of %d looks at the database met no transaction, "+
		"snapshot or lock of ours but the session advisory lock", quiet, looks)
	close(release)
	r.until("delivered everything", func() bool { return to.arrived() >= 100 })
	r.stop()
}
