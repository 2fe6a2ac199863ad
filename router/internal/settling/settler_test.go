package settling

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

// A settler with always something to write spends a twentieth of its time on writes, and pauses
// for two seconds at most; lanes that run out of window are not kept waiting.
func TestSettlesTakeATwentiethOfTheTime(t *testing.T) {
	const interval = 20 * time.Millisecond
	for name, c := range map[string]struct {
		write, pause time.Duration
		urgent       bool
	}{
		"quick":  {write: 0, pause: interval},
		"usual":  {write: 10 * time.Millisecond, pause: 190 * time.Millisecond},
		"slow":   {write: 200 * time.Millisecond, pause: longestPause},
		"urgent": {write: 10 * time.Millisecond, pause: interval / 4, urgent: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				s := New(nil, slog.New(slog.DiscardHandler), interval, time.Minute)
				writes := 0
				var ended time.Time
				s.Write = func(context.Context, Extent) error {
					if pause := time.Since(ended); writes == 1 && pause != c.pause {
						t.Errorf("the next write came %v after one of %v, want %v", pause, c.write, c.pause)
					}
					time.Sleep(c.write)
					ended = time.Now()
					s.Note(c.urgent)
					if writes++; writes == 2 {
						cancel()
					}
					return nil
				}
				s.Note(c.urgent)
				s.Run(ctx)
			})
		})
	}
}
