package http

import (
	"testing"

	"github.com/outriderhq/outrider/adapters/internal/httpx/httpxtest"
	"github.com/outriderhq/outrider/outbox/format"
)

func TestAnAttemptIsReplayedOnceAtMost(t *testing.T) {
	t.Parallel()
	httpxtest.ReplayedOnceAtMost(t, func(t *testing.T, url string) func(id, payload string) error {
		d := destination(t, Config{URL: url, Format: format.Watermill, MaxRequests: httpxtest.Connections})
		return func(id, payload string) error {
			msg := newMessage(id, "g")
			msg.Payload = []byte(payload)
			return one(t, d, msg)
		}
	})
}
