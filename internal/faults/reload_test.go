package faults_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/outriderhq/outrider/internal/testenv"
)

// Each reload is a change of the file under load: of a setting, then of a name
// that is no valid key, after which the relay must continue as it was.
func TestG3_ReloadUnderLoadRepeatsNothing(t *testing.T) {
	t.Parallel()
	testenv.Postgres(t) // skips without a server
	to := receive(t, slowly(time.Millisecond))
	db := newDatabase(t)
	config := func(window int) string {
		return settings{database: db.url, top: quick, destination: toHTTP(to.url()), window: window}.text()
	}
	w := write(t, db.pool, false)
	r := start(t, config(killWindow))
	r.says("msg=ready")
	var recovery stopwatch
	reloads := 0
	for i := range rounds(t, testenv.Brief(2, 4), 100) {
		r.configure("bad: true\n" + config(killWindow))
		r.hangUp(`has errors; this process keeps its configuration`, i+1)
		want := to.arrived() + 1 + rand.IntN(200)
		r.until("delivered more", func() bool { return to.arrived() >= want })

		r.configure(config(killWindow + 1 + i))
		began := time.Now()
		r.hangUp(`SIGHUP: reloaded`, i+1)
		before := to.arrived()
		r.until("delivers", func() bool { return to.arrived() > before })
		recovery.since(began)
		reloads++
	}
	w.stop()
	r.stop()
	report := finish(t, db, config(killWindow), to)
	tell(t, fmt.Sprintf("%d reloads and as many refused", reloads), report, recovery)
	if !report.Clean() || report.Duplicates > 0 {
		t.Errorf("want nothing lost, repeated or out of order: %v", report)
	}
}

// configure replaces the configuration file.
func (r *relay) configure(text string) {
	r.t.Helper()
	must(r.t, os.WriteFile(r.config, []byte(text), 0o600))
}

// hangUp sends SIGHUP and waits until the process has written a text so often.
func (r *relay) hangUp(text string, times int) {
	r.t.Helper()
	must(r.t, r.cmd.Process.Signal(syscall.SIGHUP))
	r.until("says "+text, func() bool { return strings.Count(r.output(), text) >= times })
}
