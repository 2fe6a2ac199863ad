package faults_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// TestG1_G2_FlowCatalystDefaults runs a configuration that says nothing but
// where things are.
func TestG1_G2_FlowCatalystDefaults(t *testing.T) {
	t.Parallel()
	c := newCatalyst(t)
	to := newAPI(t, nil)
	c.fill("backlog", 30, 25)
	r := start(t, c.config(to.url(), "wake: poll"))
	r.until("delivered the backlog", func() bool { return to.arrived() >= 2*31*25 })
	c.fill("beside", 1, 150)
	total := 2*31*25 + 2*2*150
	r.until("delivered everything", func() bool { return to.arrived() >= total })
	r.until("settled everything", func() bool { return c.count("status = 'COMPLETED'") == total })
	r.stop()
	if report := c.compare(to); report.Duplicates > 0 || report.Committed != total {
		t.Errorf("want %d items without duplicates: %v", total, report)
	}
	if to.most > 10 || to.most < 2 || to.batch > 100 {
		t.Errorf("up to %d requests at once, up to %d items in one; want at most 10 and 100", to.most, to.batch)
	}
	// As the document has it after success: nothing but status and time.
	if n := c.count(`status = 'COMPLETED' AND retry_count = 0 AND error_message IS NULL AND processed_at >= created_at
		AND processed_at <= now()::timestamp AND type IN ('EVENT', 'DISPATCH_JOB')`); n != total {
		t.Errorf("%d of %d rows are as they should be: %s", n, total, c.statuses())
	}
	if n := c.one0("SELECT count(*) FROM outrider_parked"); n > 0 {
		t.Errorf("%d messages are parked; a queue table keeps its own", n)
	}
}

func (c *catalyst) one0(query string) int { return one[int](c.database, query) }

// TestG2_FlowCatalystRetriesOneGroup refuses one group among good ones: four
// sends of every item of its batches, FAILED at three retries, and the rest continues.
func TestG2_FlowCatalystRetriesOneGroup(t *testing.T) {
	t.Parallel()
	c := newCatalyst(t)
	to := newAPI(t, func(items []item) int {
		if items[0].Group == "g3" && items[0].Kind == "EVENT" {
			return http.StatusUnprocessableEntity
		}
		return 0
	})
	c.fill("a", 8, 20)
	r := start(t, c.config(to.url(), "wake: poll"))
	good := 2*9*20 - 20
	r.until("delivered what is good", func() bool { return to.arrived() >= good })
	r.until("gave the bad ones up", func() bool { return c.count("status = 'FAILED'") == 20 })
	r.until("settled the good ones", func() bool { return c.count("status = 'COMPLETED'") == good })
	r.stop()
	c.wantFailed(to, 20, func(ref string) bool { return strings.HasPrefix(ref, "a-EVENT-3-") }, "422")
	if n := c.count("status = 'COMPLETED' AND retry_count = 0 AND error_message IS NULL"); n != good {
		t.Errorf("%d of %d good rows are as if nothing had been: %s", n, good, c.statuses())
	}
}

// TestG2_FlowCatalystRetriesAll refuses everything, with an answer: that is no
// outage, and counts for every item.
func TestG2_FlowCatalystRetriesAll(t *testing.T) {
	t.Parallel()
	c := newCatalyst(t)
	to := newAPI(t, func([]item) int { return http.StatusInternalServerError })
	c.fill("a", 12, 10)
	r := start(t, c.config(to.url(), "wake: poll"))
	r.until("gave everything up", func() bool { return c.count("status = 'FAILED'") == 2*13*10 })
	r.stop()
	c.wantFailed(to, 2*13*10, func(string) bool { return true }, "500")
}

// wantFailed wants so many rows to be as the document says after max-retries 3.
func (c *catalyst) wantFailed(to *api, n int, which func(string) bool, status string) {
	c.t.Helper()
	if got := c.count(`status = 'FAILED' AND retry_count = 3 AND processed_at IS NOT NULL
		AND error_message LIKE '%` + status + `%the platform says no%'`); got != n {
		c.t.Errorf("%d of %d rows failed as they should: %s", got, n, c.statuses())
	}
	if got := to.sent(which); !slices.Equal(got, []int{4}) {
		c.t.Errorf("the failed items were sent %v times, want 4", got)
	}
}

// TestG10_FlowCatalystOutage takes the platform away in the ways that say that
// it is unavailable. Nothing is counted, and everything arrives afterwards.
func TestG10_FlowCatalystOutage(t *testing.T) {
	t.Parallel()
	for name, status := range map[string]int{"refused": 0, "503": 503, "429": 429, "401": 401, "404": 404} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCatalyst(t)
			var down atomic.Bool
			to := newAPI(t, func([]item) int {
				if down.Load() {
					return status
				}
				return 0
			})
			c.fill("a", 5, 10)
			r := start(t, c.config(to.url(), busy))
			// Not only arrived: a request that is cut off before its answer counts, as it should.
			r.until("delivers", func() bool { return c.count("status = 'COMPLETED'") == 2*6*10 })
			down.Store(true)
			if status == 0 {
				to.down()
			}
			c.fill("b", 20, 40)
			r.says("address is down")
			outlast(t, func() {
				if n := c.count("retry_count > 0 OR status = 'FAILED' OR error_message IS NOT NULL"); n > 0 {
					t.Fatalf("the outage burns retries: %s", c.statuses())
				}
			})
			down.Store(false)
			if status == 0 {
				to.up()
			}
			total := 2*6*10 + 2*21*40
			r.until("delivered everything", func() bool { return to.arrived() >= total })
			r.stop()
			if got, want := c.statuses(), c.completed(total); got != want {
				t.Errorf("the rows are %s, want %s", got, want)
			}
			if report := c.compare(to); report.Duplicates > 0 && status != 0 {
				t.Errorf("duplicates: %v", report)
			}
		})
	}
}

// completed is the result of statuses when everything was delivered.
func (c *catalyst) completed(n int) string { return fmt.Sprintf("COMPLETED/0: %d", n) }
