package faults_test

import (
	"fmt"
	"iter"
	"os"
	"testing"
	"time"

	"github.com/outriderhq/outrider/internal/faults/check"
)

// soakEnv is the environment variable that has faults repeated for a time, such
// as 10m: `make soak` sets it.
const soakEnv = "OUTRIDER_SOAK"

// soakPatience is [patience] where scenarios are large.
const soakPatience = 30 * time.Minute

// soak is the duration of a soak, 0 in `make test`.
func soak(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv(soakEnv)
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		t.Fatalf("%s=%s is no duration: write 10m, for example", soakEnv, text)
	}
	return d
}

// rounds counts the rounds of a scenario: n of them, and in a soak at least most
// and until its time is over.
func rounds(t *testing.T, n, most int) iter.Seq[int] {
	t.Helper()
	limit := soak(t)
	over := time.Now().Add(limit)
	return func(yield func(int) bool) {
		for i := 0; i < n || limit > 0 && (i < most || time.Now().Before(over)); i++ {
			if !yield(i) {
				return
			}
		}
	}
}

// size is how large a scenario is: n, and in a soak large.
func size(t *testing.T, n, large int) int {
	t.Helper()
	if soak(t) > 0 {
		return large
	}
	return n
}

// stopwatch keeps the longest time that it took until something moved again.
type stopwatch struct{ worst time.Duration }

// since takes the time since a fault.
func (s *stopwatch) since(fault time.Time) { s.worst = max(s.worst, time.Since(fault)) }

// tell logs the line of a scenario.
func tell(t *testing.T, faults string, report check.Report, recovery stopwatch) {
	t.Helper()
	line := fmt.Sprintf("%s: %v", faults, report)
	if recovery.worst > 0 {
		line += fmt.Sprintf("; worst recovery %v", recovery.worst.Round(time.Millisecond))
	}
	t.Log(line)
}
