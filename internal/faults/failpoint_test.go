package faults_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/outriderhq/outrider/internal/failpoint"
	"github.com/outriderhq/outrider/internal/testenv"
)

// atTheEnd are the steps of a stop, by when everything is settled.
var atTheEnd = []failpoint.Point{failpoint.Release, failpoint.Released}

// once are the steps that a process comes to one time only.
var once = append([]failpoint.Point{failpoint.Acquired}, atTheEnd...)

// TestG1_G2_G3_KilledAtEveryStep kills the program at each step between reading
// a message and writing down what became of it, in turn.
func TestG1_G2_G3_KilledAtEveryStep(t *testing.T) {
	t.Parallel()
	testenv.Postgres(t) // skips without a server
	working := slices.DeleteFunc(slices.Clone(failpoint.Points), func(p failpoint.Point) bool {
		return slices.Contains(atTheEnd, p) || slices.Contains(failpoint.InTransactions, p)
	})
	for name, tt := range map[string]struct {
		points []failpoint.Point
		window int // what a kill may repeat of each lane
	}{
		"while it works": {working, killWindow},
		"when it stops and everything is settled": {atTheEnd, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t)
			to := receive(t, fail())
			config := settings{database: db.url, top: quick, destination: toHTTP(to.url() + "/{{.Tenant}}"), window: killWindow,
				middleware: "[poison, {retry: {attempts: 50, base: 1200ms, max: 1200ms, jitter: 0.1}}, timeout]"}.text()
			w := write(t, db.pool, false)
			kills := killAtEach(t, tt.points, to, func(env string) *relay { return startWith(t, config, env) })
			w.stop()
			report := finish(t, db, config, to)
			t.Logf("%d kills, at %v in turn: %v", kills, tt.points, report)
			if !report.Clean() || report.Duplicates > kills*tt.window*lanes {
				t.Errorf("not clean, or more than %d duplicates for each kill: %v", tt.window*lanes, report)
			}
			if n := db.parked("status IN ('dead', 'held')"); n > 0 {
				t.Errorf("%d messages are dead", n)
			}
		})
	}
}

// killAtEach starts the program until it has killed itself at each point, and
// returns how often that was.
func killAtEach(t *testing.T, points []failpoint.Point, to *receiver, run func(env string) *relay) (kills int) {
	t.Helper()
	return killAtEachTimes(t, 10, points, to, run)
}

// killAtEachTimes is [killAtEach] with so many kills at each step in a soak.
func killAtEachTimes(t *testing.T, times int, points []failpoint.Point, to *receiver, run func(env string) *relay) (kills int) {
	t.Helper()
	for range rounds(t, 1, times) {
		for _, at := range points {
			env := fmt.Sprintf("%s=%s", failpoint.Env, at)
			if !slices.Contains(once, at) {
				env += fmt.Sprint(":", 1+rand.IntN(4))
			}
			r := run(env)
			if slices.Contains(atTheEnd, at) {
				before := to.arrived()
				r.until("delivers", func() bool { return to.arrived() > before+20 })
				must(t, r.cmd.Process.Signal(syscall.SIGTERM))
			}
			err := r.wait()
			exit := (*exec.ExitError)(nil)
			if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
				t.Fatalf("%s: the relay ended with %v, want SIGKILL", env, err)
			}
			kills++
		}
	}
	return kills
}

// fail fails one message of thirty when it comes for the first time, so that
// some are parked and come back.
func fail() func(*http.Request, []payload) int { return failOn("A") }

// failOn fails a message whose id ends with the suffix when it comes for the first time.
func failOn(suffix string) func(*http.Request, []payload) int {
	var mu sync.Mutex
	stumbled := map[string]bool{}
	return func(_ *http.Request, batch []payload) int {
		mu.Lock()
		defer mu.Unlock()
		status := http.StatusOK
		for _, p := range batch {
			if strings.HasSuffix(p.ID, suffix) && !stumbled[p.ID] {
				stumbled[p.ID] = true
				status = http.StatusInternalServerError
			}
		}
		return status
	}
}

// TestG1_G2_FlowCatalystKilledAtEveryStep does the same with rows that are
// claimed: what a kill leaves claimed is recovered after a while.
func TestG1_G2_FlowCatalystKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	c := newCatalyst(t)
	to := newAPI(t, nil)
	to.killed = true
	config := c.config(to.url(), busy+", claims: {timeout: 1s, recover: 1s}")
	stop := c.writeEvery(50 * time.Millisecond)
	defer stop()
	points := []failpoint.Point{failpoint.Fetched, failpoint.BeforeSend, failpoint.AfterSend, failpoint.BeforeSettle, failpoint.AfterSettle}
	kills := killAtEach(t, points, to.receiver, func(env string) *relay { return startWith(t, config, env) })
	stop()
	r := start(t, config)
	r.says("msg=ready") // from then on it heeds a signal, if there is nothing left to do
	r.until("delivered and settled everything", func() bool { return c.count("status <> 'COMPLETED'") == 0 })
	r.stop()
	report := c.compare(to)
	t.Logf("%d kills, at %v in turn", kills, points)
	if bound := kills * 1000; report.Duplicates > bound { // in memory at most
		t.Errorf("%d duplicates, want at most %d", report.Duplicates, bound)
	}
}
