package middleware_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/outriderhq/outrider/middleware"
	"github.com/outriderhq/outrider/outbox"
)

// Several Metrics share a registry; results are counted by kind and route.
func TestMetricsOnLane(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewPedanticRegistry()
		for range 2 {
			m := &middleware.Metrics{Registerer: registry}
			for _, err := range []error{
				nil, errBoom, outbox.Skip("duplicate"), outbox.Unavailable(errBoom, 0), outbox.Permanent(errBoom), outbox.Released(errBoom),
			} {
				_, got := m.Middleware(failing(err))(newMessage(onLane(1)))
				if got != err { //nolint:errorlint // identity is the point
					t.Errorf("%v became %v", err, got)
				}
			}
			kept, delivered := onLaneAt(t.Context(), "id", 1)
			_, _ = m.Middleware(failing(nil))(kept) // filtered
			*delivered = true
			_, _ = m.Middleware(failing(errBoom))(kept) // failed after the delivery
			func() {
				defer func() { _ = recover() }()
				_, _ = m.Middleware(explode)(newMessage(onLane(1)))
			}()
		}
		want := `# HELP outrider_attempts_total Attempts by their result.
# TYPE outrider_attempts_total counter
outrider_attempts_total{kind="dead",route="orders"} 2
outrider_attempts_total{kind="delivered",route="orders"} 4
outrider_attempts_total{kind="panic",route="orders"} 2
outrider_attempts_total{kind="released",route="orders"} 2
outrider_attempts_total{kind="retry",route="orders"} 2
outrider_attempts_total{kind="skipped",route="orders"} 4
outrider_attempts_total{kind="unavailable",route="orders"} 2
`
		if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "outrider_attempts_total"); err != nil {
			t.Error(err)
		}
	})
}

// In somebody's Watermill router the label is the handler, and a message that
// takes most of an hour is not beyond the buckets.
func TestMetricsInRouter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewPedanticRegistry()
		b := startRouter(t, func(*message.Message) ([]*message.Message, error) {
			time.Sleep(50 * time.Minute)
			return nil, nil
		}, (&middleware.Metrics{Registerer: registry}).Middleware)
		defer b.stop()
		b.publish(message.NewMessage("id", nil))
		time.Sleep(time.Hour)
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() != "outrider_attempt_duration_seconds" {
				continue
			}
			m := f.GetMetric()[0]
			labels := m.GetLabel()
			if len(labels) != 2 || labels[0].GetValue() != "delivered" || labels[1].GetValue() != "handler" {
				t.Errorf("labels %v", labels)
			}
			h := m.GetHistogram()
			buckets := h.GetBucket()
			if last := buckets[len(buckets)-1]; last.GetUpperBound() != 3600 || last.GetCumulativeCount() != 1 ||
				buckets[len(buckets)-2].GetCumulativeCount() != 0 || h.GetSampleSum() != 3000 {
				t.Errorf("histogram %v", h)
			}
			return
		}
		t.Error("no histogram")
	})
}
