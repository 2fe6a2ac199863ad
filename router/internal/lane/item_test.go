package lane

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/outriderhq/outrider/outbox"
)

// Attempts that fail alike say the same: errors are kept without the time of the next attempt.
func TestErrorsAreKeptWithoutTheNextAttempt(t *testing.T) {
	t.Parallel()
	refused, at := errors.New("answers 500"), time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	for want, err := range map[string]error{
		"answers 500":                       outbox.RetryAt(at, refused),
		"attempt 2 of 3: answers 500":       fmt.Errorf("attempt 2 of 3: %w", outbox.RetryAt(at, outbox.RetryAt(at, refused))),
		"answers 500 (no further attempts)": outbox.Exhaust(refused),
		"timeout: answers 500":              fmt.Errorf("timeout: %w", refused),
	} {
		if got := textOf(err); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
