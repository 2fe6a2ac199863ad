package faults_test

import (
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/outriderhq/outrider/internal/faults/check"
)

// others is how many messages of the peers must arrive.
const others = 10_000

// healthy commits them: their groups are in all lanes.
func healthy(db *database) { db.fill(batch{n: others, groups: 200, prefix: "ok", tenant: "ok"}) }

// arrivedOf counts the different messages of groups with a prefix.
func (r *receiver) arrivedOf(prefix string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := map[string]struct{}{}
	for _, d := range r.taken {
		if strings.HasPrefix(d.Group, prefix) {
			seen[d.ID] = struct{}{}
		}
	}
	return len(seen)
}

func TestG6_HangingReceiverLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	for name, stuck := range map[string]batch{
		"one group with a long backlog": {n: 3000, groups: 1, prefix: "stuck", tenant: "stuck"},
		"groups in all lanes":           {n: 3000, groups: 300, prefix: "stuck", tenant: "stuck"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t)
			release := make(chan struct{})
			var gaveUp atomic.Bool // the relay ended a request
			to := receive(t, func(req *http.Request, _ []payload) int {
				if req.URL.Path == "/stuck" {
					select {
					case <-release:
					case <-req.Context().Done():
						gaveUp.Store(true)
					}
				}
				return http.StatusOK
			})
			// What hangs is in front of everything. No timeout comes to the rescue.
			db.fill(stuck)
			healthy(db)
			r := start(t, settings{
				database: db.url, window: 256, middleware: "[poison, retry]",
				destination: toHTTP(to.url()+"/{{.Tenant}}") + ", timeout: 10m",
			}.text())
			r.until("delivered the others", func() bool { return to.arrivedOf("ok") >= others })
			if gaveUp.Load() {
				t.Error("the others arrived only after requests to the hanging receiver had been given up")
			}
			close(release)
			r.until("delivered everything", func() bool { return to.arrived() >= others+stuck.n })
			r.stop()
			report := check.Compare(db.rows(), to.all()...)
			t.Logf("1 hanging receiver of 2, %s: %v", name, report)
			if !report.Clean() || report.Duplicates > 0 {
				t.Errorf("not clean: %v", report)
			}
		})
	}
}

func TestG6_PoisonedGroupLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	const poisoned = 2000
	for name, tt := range map[string]struct {
		status     int
		middleware string
		parked     string // what the group's head comes to
	}{
		"500, retried without end":  {http.StatusInternalServerError, "[poison, {retry: {attempts: 1000, base: 200ms, max: 5s}}, timeout]", "status = 'retrying' AND attempts > 0"},
		"400, held for an operator": {http.StatusBadRequest, "[poison: {then: hold}, retry, timeout]", "status = 'held' AND attempts = 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t)
			to := receive(t, func(_ *http.Request, batch []payload) int {
				for _, p := range batch {
					if p.Group == "bad0" {
						return tt.status
					}
				}
				return http.StatusOK
			})
			db.fill(batch{n: poisoned, groups: 1, prefix: "bad"})
			healthy(db)
			r := start(t, settings{database: db.url, window: 256, middleware: tt.middleware, destination: toHTTP(to.url())}.text())
			r.until("delivered the others", func() bool { return to.arrivedOf("ok") >= others })
			r.until("has parked the head of the poisoned group", func() bool { return db.parked(tt.parked) == 1 })
			r.until("has parked what is behind it", func() bool { return db.parked("status = 'waiting'") == poisoned-1 })
			r.stop()
			rows := slices.DeleteFunc(db.rows(), func(r check.Row) bool { return r.Group == "bad0" })
			report := check.Compare(rows, to.all()...)
			t.Logf("1 poisoned group (%s) of 201, its %d messages parked; of the others: %v", name, poisoned, report)
			if !report.Clean() || report.Duplicates > 0 {
				t.Errorf("not clean: %v", report)
			}
		})
	}
}
