package faults_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/outriderhq/outrider/internal/faults/check"
	"github.com/outriderhq/outrider/internal/testenv"
)

// A relay that reads a broker is killed again and again, while its receiver refuses some messages at first: each message arrives, in order
// for each group, and only what was in flight comes twice.
func TestG1_G2_RelaysThatReadBrokersAreKilled(t *testing.T) {
	for kind, begin := range brokers {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			testenv.Postgres(t) // skips without a server
			b := begin(t)
			db := newDatabase(t)
			db.fill(batch{n: 600, groups: 20})
			rows := db.rows()
			r := start(t, settings{database: db.url, top: quick, destination: b.section, window: killWindow}.text())
			r.until("the broker has all", func() bool { return b.arrived() >= len(rows) })
			r.stop()

			var refused sync.Map
			to := receive(t, func(_ *http.Request, batch []payload) int {
				if group := batch[0].Group; strings.HasSuffix(group, "7") {
					if _, again := refused.LoadOrStore(group, true); !again {
						return http.StatusInternalServerError // it is parked, with those behind it
					}
				}
				return http.StatusOK
			})
			config := fmt.Sprintf(`admin: {listen: off}
%s
state: {url: %q}
sources: {in: {%s}}
destinations: {there: {%s}}
routes: {orders: {from: in, to: there, middleware: [poison, {retry: {attempts: 100, base: 20ms, max: 200ms}}, timeout]}}
`, strings.Join(quick, "\n"), db.url, b.source, toHTTP(to.url()+"/{{.Group}}"))
			kills := 0
			for range rounds(t, 4, 50) {
				before := to.arrived()
				if before > len(rows)*9/10 {
					break
				}
				r = start(t, config)
				r.until("delivers some", func() bool { return to.arrived() > before+20 })
				r.kill()
				kills++
			}
			r = start(t, config)
			r.until("delivered everything", func() bool { return to.arrived() >= len(rows) })
			r.until("has nothing parked", func() bool { return db.parked("true") == 0 })
			r.stop()
			report := check.Compare(rows, to.all()...)
			t.Logf("%s: %d kills: %v", kind, kills, report)
			if !report.Clean() || report.Duplicates > kills*16 {
				t.Errorf("want nothing lost or out of order, and few duplicates: %v", report)
			}
		})
	}
}
