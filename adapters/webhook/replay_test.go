package webhook

import (
	"testing"

	"github.com/outriderhq/outrider/adapters/internal/httpx/httpxtest"
)

func TestAnAttemptIsReplayedOnceAtMost(t *testing.T) {
	t.Parallel()
	httpxtest.ReplayedOnceAtMost(t, func(t *testing.T, url string) func(id, payload string) error {
		d := destination(t, Config{URL: url, Format: "raw"})
		return func(id, payload string) error {
			msg := newMessage(id, "g")
			msg.Payload = []byte(payload)
			return one(t, d, msg)
		}
	})
}
