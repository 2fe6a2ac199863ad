package faults_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Open pages and a Prometheus, as a team has them: each asks every five seconds.
const (
	openPages  = 5
	askedEvery = 5 * time.Second
)

// processorTime returns the processor time of a process, with children also that of the processes that it has started.
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

// watchPages has open pages and a Prometheus ask until ctx ends, as the pages' script does: with the ETag of the last answer, and with
// the charts of a route. It returns the number of answers.
func watchPages(ctx context.Context, t *testing.T, base string) (answers int64) {
	t.Helper()
	var wg sync.WaitGroup
	var n atomic.Int64
	for i := range openPages + 1 {
		paths := []string{"/"}
		switch {
		case i == openPages:
			paths = []string{"/metrics"}
		case i%2 == 1:
			paths = []string{"/route/orders0", "/data/orders0"}
		}
		wg.Go(func() {
			pause(ctx, time.Duration(i)*askedEvery/(openPages+1)) // not all at once
			tags := map[string]string{}
			for ctx.Err() == nil {
				for _, path := range paths {
					req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+path, http.NoBody)
					must(t, err)
					req.Header.Set("Accept", "text/html")
					req.Header.Set("If-None-Match", tags[path])
					resp, err := http.DefaultClient.Do(req)
					if err != nil {
						if ctx.Err() == nil {
							t.Errorf("%s: %v", path, err)
						}
						return
					}
					_, _ = io.Copy(io.Discard, resp.Body) // it may be cut off at the end
					_ = resp.Body.Close()
					if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusNotModified {
						t.Errorf("%s: %s", path, resp.Status)
					}
					tags[path] = cmp.Or(resp.Header.Get("ETag"), tags[path])
					n.Add(1)
				}
				pause(ctx, askedEvery)
			}
		})
	}
	wg.Wait()
	return n.Load()
}

// TestDashboardsOnABusyRelay measures what five open pages and a Prometheus cost a relay that delivers as fast as it can. The time of one backlog
// differs by a tenth from one run to the next, so pairs with and without pages show large costs only. What the pages take is measured while the
// same backlog lies there and the route is paused, because nothing else works then. A busy machine delivers so much less as they take of its
// processors: that is to be below a hundredth. Only a soak measures it, alone on the machine.
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
	// used measures f: the processor time of the relay, the same with PostgreSQL's, and the time.
	used := func(watched bool, f func()) (own, all, took time.Duration, answers int64) {
		own, all = processorTime(t, r.cmd.Process.Pid, false), processorTime(t, server, true)
		began := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		var pages sync.WaitGroup
		if watched {
			pages.Go(func() { answers = watchPages(ctx, t, base) })
		}
		f()
		took = time.Since(began)
		cancel()
		pages.Wait()
		own = processorTime(t, r.cmd.Process.Pid, false) - own
		return own, own + processorTime(t, server, true) - all, took, answers
	}
	drain := func(watched bool) (own, all, took time.Duration) {
		own, all, took, _ = used(watched, func() {
			r.move("seek", "orders0", "--to", "beginning")
			r.until("everything is delivered again", drained)
		})
		return own, all, took
	}
	drain(true) // everything is warm
	var ownMore, allMore, longer []float64
	var busy, busyTook time.Duration // of all runs without pages
	more := func(with, without time.Duration) float64 { return 100 * (float64(with)/float64(without) - 1) }
	for range rounds(t, 1, 4) {
		first := len(longer)%2 == 0 // of each pair, which one is first changes
		own, all, took := drain(first)
		own0, all0, took0 := drain(!first)
		if !first {
			own, own0, all, all0, took, took0 = own0, own, all0, all, took0, took
		}
		busy, busyTook = busy+all0, busyTook+took0
		ownMore, allMore, longer = append(ownMore, more(own, own0)), append(allMore, more(all, all0)), append(longer, more(took, took0))
		t.Logf("%.0f messages/s with pages, %.0f without; processor time of the relay %v and %v (%+.2f%%), with PostgreSQL %v and %v (%+.2f%%)",
			rows/took.Seconds(), rows/took0.Seconds(), own, own0, more(own, own0), all, all0, more(all, all0))
	}
	t.Logf("%d pairs, medians: %+.2f%% time, %+.2f%% of the relay's processor time, %+.2f%% with PostgreSQL's",
		len(longer), median(longer), median(ownMore), median(allMore))

	command(t, "pause", "orders0", "-c", r.config)
	r.move("seek", "orders0", "--to", "beginning") // all of it waits
	const each = 30 * time.Second
	idle := func() { pause(t.Context(), each) }
	quietOwn, quiet, quietTook, _ := used(false, idle)
	own, all, took, answers := used(true, idle)
	perSecond := all.Seconds()/took.Seconds() - quiet.Seconds()/quietTook.Seconds()
	share := 100 * perSecond / float64(runtime.NumCPU())
	t.Logf("beside %d rows that wait: %d answers in %v; processor time of the relay %v with pages, %v without; with PostgreSQL %v and %v: "+
		"the pages take %.2f ms a second, %.2f%% of %d processors, %.2f%% of what a busy relay and PostgreSQL take",
		rows, answers, took.Round(time.Second), own, quietOwn, all, quiet, 1000*perSecond, share, runtime.NumCPU(),
		100*perSecond/(busy.Seconds()/busyTook.Seconds()))
	if answers < 2*openPages {
		t.Errorf("there were %d answers", answers)
	}
	if share >= 1 {
		t.Errorf("the pages take %.2f%% of the processors, want less than 1%%", share)
	}
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}
