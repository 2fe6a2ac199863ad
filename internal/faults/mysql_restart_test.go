package faults_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/outriderhq/outrider/internal/faults/check"
	"github.com/outriderhq/outrider/internal/testenv"
)

// The server of a queue and of its state is killed under load and restarted, and meanwhile all connections of the relay are
// cut: in a claim, in a settle, in a COMMIT. The relay continues by itself, and no row has to be recovered by hand.
func TestG1_G2_MariaDBOfAQueueRestartsUnderLoad(t *testing.T) {
	t.Parallel()
	maria := testenv.StartMariaDB(t)
	c := newMySQLCatalystAt(t, maria.Database())
	c.restarts = true
	c.exec(`CREATE USER relay IDENTIFIED BY 'secret'`)
	u, err := url.Parse(c.url)
	must(t, err)
	c.exec(fmt.Sprintf("GRANT ALL ON %#q.* TO relay", strings.TrimPrefix(u.Path, "/")))
	u.User = url.UserPassword("relay", "secret")
	to := newAPI(t, nil)
	to.killed = true // what was sent and not settled is sent again
	c.url = u.String()
	config := c.shared(to.url(), busy)
	initialise(t, config)
	r := start(t, config)
	stop := c.write()
	defer stop()
	deliver := func(n int) {
		t.Helper()
		before := to.arrived()
		r.until("delivers under load", func() bool { return to.arrived() > before+n })
	}
	deliver(50)
	restarts, cuts := 0, 0
	for range rounds(t, 1, 20) {
		for range 3 {
			c.exec(`KILL CONNECTION USER relay`)
			cuts++
			deliver(20)
		}
		maria.Kill()
		maria.Start()
		restarts++
		deliver(50)
	}
	stop()
	total := c.count(`SELECT count(*) FROM outbox_events`)
	r.until("settled everything", func() bool { return c.count(`SELECT count(*) FROM outbox_events WHERE status = 'COMPLETED'`) == total })
	r.stop()
	if n := c.count(`SELECT count(*) FROM outbox_events WHERE status <> 'COMPLETED' OR retry_count > 0 OR error_message IS NOT NULL`); n > 0 {
		t.Errorf("%d rows are not as if nothing had been", n)
	}
	report := check.Compare(c.rows(), to.all()...)
	t.Logf("%d restarts of MariaDB and %d times all connections cut: %v", restarts, cuts, report)
	if !report.Clean() || report.Committed != total {
		t.Errorf("want %d items in order: %v", total, report)
	}
}
