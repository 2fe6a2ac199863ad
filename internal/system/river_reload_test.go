package system_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/outriderhq/outrider"
)

// TestG1_G2_G3_AReloadInTheMiddleOfADeliveryInATransaction reloads while a delivery waits for River's table. Either the
// delivery ends within the drain timeout, or it is called off and its transaction rolled back; both ways each message
// becomes one job, and the relay of the new configuration goes on behind it.
func TestG1_G2_G3_AReloadInTheMiddleOfADeliveryInATransaction(t *testing.T) {
	t.Parallel()
	for name, drain := range map[string]string{"waits": "10m", "calls off": "50ms"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJobs(t, "")
			config := func(drain string, attempts int) *outrider.Config {
				t.Helper()
				cfg, err := outrider.ParseConfig("test", fmt.Appendf(nil, `
drain_timeout: %s
sources: {app: {type: postgres, url: %q, poll: {max: 20ms}}}
destinations: {jobs: {type: river, url: %q, batch: {max_messages: 50}}}
routes: {work: {from: app, to: jobs, middleware: [{retry: {attempts: %d, base: 1ms, max: 5ms}}]}}
`, drain, j.url, j.url, attempts))
				must(t, err)
				return cfg
			}
			j.cfg = config(drain, 2)
			stop := j.run()
			t.Cleanup(stop)
			j.publish(true, event{N: 1, Group: "g1"})
			eventually(t, "the first is a job", func() bool { return j.jobsOf(1) == 1 })
			for n, reloads := 2, 1; n <= 20; n, reloads = n+3, reloads+1 { // three messages in each round
				release := j.blocked(func() {
					j.publish(true, event{N: n, Group: "g1"}, event{N: n + 1, Group: "g1"}, event{N: n + 2, Group: "g2"})
				})
				done := make(chan error, 1)
				go func() { done <- j.relay.Reload(t.Context(), config(drain, n)) }()
				if name == "waits" {
					eventually(t, "the reload has begun", func() bool { return strings.Count(j.log.all(), "finishing messages in flight") >= reloads })
					release()
					must(t, <-done)
				} else {
					must(t, <-done)
					release()
				}
			}
			j.publish(true, event{N: 23, Group: "g1"})
			eventually(t, "the lane goes on", func() bool { return j.jobsOf(23) == 1 })
			must(t, j.relay.Reload(t.Context(), config("10m", 1))) // so that a busy machine has the time to stop in order
			stop()
			j.check()
		})
	}
}
