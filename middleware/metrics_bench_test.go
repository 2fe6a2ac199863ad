package middleware_test

import (
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/outriderhq/outrider/middleware"
)

// BenchmarkMetrics is what counting and timing cost a message.
func BenchmarkMetrics(b *testing.B) {
	m := &middleware.Metrics{Registerer: prometheus.NewRegistry()}
	h := m.Middleware(func(*message.Message) ([]*message.Message, error) { return nil, nil })
	msg := message.NewMessage("id", nil)
	b.ReportAllocs()
	for b.Loop() {
		_, _ = h(msg) // it does not fail
	}
}
