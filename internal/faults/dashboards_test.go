package faults_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Open pages and a Prometheus, as a team has them: each asks every five seconds.
const (
	openPages  = 5
	askedEvery = 5 * time.Second
)

// processorTime is what a process, and with children those that it has started, have used so far.
func processorTime(t *testing.T, pid int, children bool) time.Duration {
	t.Helper()
	const tick = 10 * time.Millisecond // of Linux, on all platforms
	used := func(pid int, ended bool) (d time.Duration, parent int) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return 0, 0 // it has ended
		}
		f := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		number := func(i int) int {
			n, err := strconv.Atoi(f[i])
			must(t, err)
			return n
		}
		d = time.Duration(number(11)+number(12)) * tick
		if ended {
			d += time.Duration(number(13)+number(14)) * tick
		}
		return d, number(1)
	}
	sum, _ := used(pid, children)
	if children {
		all, err := filepath.Glob("/proc/[0-9]*")
		must(t, err)
		for _, dir := range all {
			if child, err := strconv.Atoi(filepath.Base(dir)); err == nil {
				if d, parent := used(child, false); parent == pid {
					sum += d
				}
			}
		}
	}
	return sum
}

// parentOf is the parent of a process.
func parentOf(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	must(t, err)
	parent, err := strconv.Atoi(strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))[1])
	must(t, err)
	return parent
}

// watchPages has open pages and a Prometheus ask until ctx ends.
func watchPages(ctx context.Context, t *testing.T, base string) {
	t.Helper()
	var wg sync.WaitGroup
	for i := range openPages + 1 {
		path := "/"
		if i == openPages {
			path = "/metrics"
		}
		wg.Go(func() {
			pause(ctx, time.Duration(i)*askedEvery/(openPages+1)) // not all at once
			tag := ""
			for ctx.Err() == nil {
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+path, http.NoBody)
				must(t, err)
				req.Header.Set("Accept", "text/html")
				req.Header.Set("If-None-Match", tag)
				if resp, err := http.DefaultClient.Do(req); err == nil {
					_, _ = io.Copy(io.Discard, resp.Body) // it may be cut off at the end
					_ = resp.Body.Close()
					tag = cmp.Or(resp.Header.Get("ETag"), tag)
				}
				pause(ctx, askedEvery)
			}
		})
	}
	wg.Wait()
}

// TestDashboardsOnABusyRelay measures what five open pages and a Prometheus cost a relay that delivers as fast as it can: time, and processor
// time of its own and with PostgreSQL's, for the same backlog again and again, in pairs with and without them. It is a measurement: only
// a soak makes it, alone on the machine, and nothing is asserted about the figures.
func TestDashboardsOnABusyRelay(t *testing.T) {
	if soak(t) == 0 {
		t.Skip("only in a soak: it measures for minutes")
	}
	db := newDatabase(t)
	const rows = 2_000_000
	db.fill(batch{n: rows, groups: 10_000, bytes: 100})
	db.exec("VACUUM ANALYZE outrider_outbox")
	r := start(t, settings{database: db.url, poll: "{max: 1s}", top: []string{`admin: {listen: "127.0.0.1:0"}`}, destination: "type: discard"}.text())
	base := r.admin()
	server := parentOf(t, one[int](db, "SELECT pg_backend_pid()"))
	drained := func() bool { return one[bool](db, settledEverything, lanes) }
	r.until("everything is delivered", drained)
	drain := func(watched bool) (own, all, took time.Duration) {
		own, all = processorTime(t, r.cmd.Process.Pid, false), processorTime(t, server, true)
		r.move("seek", "orders0", "--to", "beginning")
		began := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		var pages sync.WaitGroup
		if watched {
			pages.Go(func() { watchPages(ctx, t, base) })
		}
		r.until("everything is delivered again", drained)
		took = time.Since(began)
		cancel()
		pages.Wait()
		own = processorTime(t, r.cmd.Process.Pid, false) - own
		return own, own + processorTime(t, server, true) - all, took
	}
	drain(true) // everything is warm
	var ownMore, allMore, longer []float64
	more := func(with, without time.Duration) float64 { return 100 * (float64(with)/float64(without) - 1) }
	for range rounds(t, 1, 10) {
		first := len(longer)%2 == 0 // of each pair, which one is first changes
		own, all, took := drain(first)
		own0, all0, took0 := drain(!first)
		if !first {
			own, own0, all, all0, took, took0 = own0, own, all0, all, took0, took
		}
		ownMore, allMore, longer = append(ownMore, more(own, own0)), append(allMore, more(all, all0)), append(longer, more(took, took0))
		t.Logf("%.0f messages/s with pages, %.0f without; processor time of the relay %v and %v (%+.2f%%), with PostgreSQL %v and %v (%+.2f%%)",
			rows/took.Seconds(), rows/took0.Seconds(), own, own0, more(own, own0), all, all0, more(all, all0))
	}
	t.Logf("%d pairs, medians: %+.2f%% time, %+.2f%% of the relay's processor time, %+.2f%% with PostgreSQL's", len(longer), median(longer), median(ownMore), median(allMore))
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}
