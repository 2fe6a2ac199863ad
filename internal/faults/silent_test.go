package faults_test

import (
	"fmt"
	"net/http"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2/toxics"
	"github.com/jackc/pgx/v5"
)

// A connection that stops answering and stays open stops nothing: neither messages
// that return from parking, nor the taking of lanes.

// stateVia has the relay reach its state store, and only that, through a proxy.
func stateVia(t *testing.T, db *database) (net *network, state string) {
	t.Helper()
	u, err := url.Parse(db.url)
	must(t, err)
	net = connectVia(t, u.Host)
	u.Host = net.Listen
	return net, fmt.Sprintf("state: {url: %q}", u.String())
}

// unanswered lets begin make the relay send a statement, recognised by a part of
// its text, of which the answer never arrives. lock is a statement whose locks
// keep the server from answering until answers are swallowed; coming is a condition
// that says, under these locks, that the statement is still to come.
func unanswered(t *testing.T, db *database, net *network, lock, coming, statement string, begin func()) {
	t.Helper()
	running := func(and string) int {
		return one[int](db, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
			AND state = 'active' AND position($q$`+statement+`$q$ IN query) > 0`+and)
	}
	var tx pgx.Tx
	until(t, "the relay has not sent yet: "+statement, func() (early bool) {
		var err error
		tx, err = db.pool.Begin(t.Context())
		must(t, err)
		_, err = tx.Exec(t.Context(), lock)
		must(t, err)
		must(t, tx.QueryRow(t.Context(), "SELECT "+coming).Scan(&early))
		if !early {
			must(t, tx.Rollback(t.Context()))
		}
		return early
	})
	begin()
	until(t, "the relay waits for: "+statement, func() bool { return running(" AND wait_event_type = 'Lock'") == 1 })
	calm := net.disturb(toxics.ToxicWrapper{Toxic: &silence{}, Type: "silence", Stream: "downstream"})
	must(t, tx.Rollback(t.Context()))
	until(t, "the server has answered: "+statement, func() bool { return running("") == 0 })
	pause(t.Context(), 200*time.Millisecond) // until the answer has come to the proxy; if it has not, the relay gets it
	calm()
}

func TestG1_AnUnansweredLookIntoTheParking(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	net, state := stateVia(t, db)
	var healthy atomic.Bool
	to := receive(t, func(*http.Request, []payload) int {
		if healthy.Load() {
			return http.StatusOK
		}
		return http.StatusInternalServerError
	})
	r := start(t, settings{database: db.url, destination: toHTTP(to.url()), top: []string{state, "lease: 2s"},
		middleware: "[poison, {retry: {attempts: 10, base: 3s, max: 3s}}, timeout]"}.text())
	r.says("acquired all lanes")
	db.fill(batch{n: 3, groups: 1})
	r.until("parks the group", func() bool { return db.parked("status = 'retrying'") == 1 && db.parked("status = 'waiting'") == 2 })
	unanswered(t, db, net, "LOCK TABLE outrider_parked IN ACCESS EXCLUSIVE MODE",
		"count(*) = 1 FROM outrider_parked WHERE status = 'retrying' AND next_attempt_at > clock_timestamp()",
		"CASE WHEN total <=", func() { healthy.Store(true) })
	r.until("delivers what is parked", func() bool { return to.arrived() == 3 })
	r.stop()
}

func TestG1_AnUnansweredAcquire(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	net, state := stateVia(t, db)
	to := receive(t, nil)
	db.fill(batch{n: 3, groups: 1})
	var r *relay
	unanswered(t, db, net, "SELECT pg_advisory_xact_lock(hashtextextended('outrider route ' || current_schema() || ' orders0', 7710263))", "true",
		"pg_advisory_xact_lock(hashtextextended('outrider route ", func() {
			r = start(t, settings{database: db.url, destination: toHTTP(to.url()), route: []string{"start: beginning"},
				top: []string{state, "lease: 2s", "drain_timeout: 10m"}}.text())
		})
	r.until("delivers", func() bool { return to.arrived() == 3 })
	r.stop()
}
