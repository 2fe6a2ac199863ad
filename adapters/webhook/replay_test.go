package webhook

import (
	"crypto/tls"
	"testing"

	"github.com/outriderhq/outrider/adapters/internal/httpx/httpxtest"
	"github.com/outriderhq/outrider/internal/testenv"
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

func TestG6_AConnectionThatSaysNothingMoreEnds(t *testing.T) {
	t.Parallel()
	httpxtest.ConnectionsEnd(t, proxied, func(t *testing.T, url string, trust *tls.Config) func(id string) error {
		d := destination(t, Config{URL: url, TLS: trust, Timeout: httpxtest.Timeout})
		return func(id string) error { return one(t, d, newMessage(id, "g")) }
	})
}

func proxied(t *testing.T, receiver string) httpxtest.Balancer {
	t.Helper()
	return testenv.StartProxy(t, receiver)
}
