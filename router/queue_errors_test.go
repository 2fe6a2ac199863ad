package router

import (
	"log/slog"
	"sync/atomic"
	"testing"
	"time"
)

// While a queue cannot be polled, or its results cannot be written, the log has an ERROR at once, then one a minute with the number of
// failures, and at last that it is over.
func TestWhatAQueueCannotDoIsAnErrorInTheLog(t *testing.T) {
	for what, texts := range map[string][2]string{
		"Claim":  {"cannot claim rows from the queue's table", "rows of the queue's table can be claimed again"},
		"Settle": {"progress cannot be written to the queue's table", "progress is written to the queue's table again"},
	} {
		t.Run(what, func(t *testing.T) {
			inQueueBubble(t, group, func(r *queueRig) {
				log := &journal{}
				r.config.Logger = slog.New(slog.NewTextHandler(log, nil))
				var away atomic.Bool
				away.Store(true)
				r.table.fail = func(statement string) error {
					if statement == what && away.Load() {
						return errTable
					}
					return nil
				}
				r.put("", "g", "1")
				r.begin(nil)
				time.Sleep(4*time.Minute + 30*time.Second)
				away.Store(false)
				r.until("the row is done", func() bool { return r.table.get("1").status == "done" })
				r.stop()
				for text, want := range map[string]int{
					"level=ERROR": 5, `level=ERROR msg="` + texts[0]: 5, "failures=": 4, "level=WARN": 0, `level=INFO msg="` + texts[1]: 1,
				} {
					if n := log.count(text); n != want {
						t.Errorf("the log has %d times %s, want %d:\n%s", n, text, want, log.all())
					}
				}
			})
		})
	}
}
