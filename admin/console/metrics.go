package console

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/status"
)

// routeMetric is a metric of each route of this process.
type routeMetric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*adapters.RouteStats) float64
}

// routeDesc describes a metric with the label route.
func routeDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("outrider_"+name, help, append([]string{"route"}, labels...), nil)
}

func counterOf(name, help string, value func(*adapters.RouteStats) int64) routeMetric {
	return routeMetric{routeDesc(name, help), prometheus.CounterValue, func(s *adapters.RouteStats) float64 { return float64(value(s)) }}
}

func gaugeOf(name, help string, value func(*adapters.RouteStats) float64) routeMetric {
	return routeMetric{routeDesc(name, help), prometheus.GaugeValue, value}
}

// routeMetrics are the metrics of every route, queueMetrics those of routes that read a queue.
var (
	routeMetrics = []routeMetric{
		counterOf("delivered_total", "Messages that the destination took.", func(s *adapters.RouteStats) int64 { return s.Delivered }),
		counterOf("retried_total", "Attempts that failed and counted.", func(s *adapters.RouteStats) int64 { return s.Retried }),
		counterOf("dead_total", "Messages that were taken out for an operator, since the start of this process.", func(s *adapters.RouteStats) int64 { return s.Dead }),
		counterOf("parked_total", "Messages that were taken out of the stream to wait.", func(s *adapters.RouteStats) int64 { return s.Parked }),
		counterOf("duplicates_total", "Messages that the route's destination took for duplicates, over all its routes; they count as delivered.",
			func(s *adapters.RouteStats) int64 { return s.Duplicates }),
		gaugeOf("age_seconds", "Age of the oldest message that was read and is not delivered; 0 when there is none. It grows while nothing is delivered.",
			func(s *adapters.RouteStats) float64 { return s.Oldest.Seconds() }),
		gaugeOf("delivery_age_seconds", "Time from creation to delivery of a message delivered recently.",
			func(s *adapters.RouteStats) float64 { return s.Age.Seconds() }),
		gaugeOf("paused", "1 while the route is paused.", func(s *adapters.RouteStats) float64 { return flag(s.Paused != nil) }),
		gaugeOf("stopped", "1 while the route cannot run and waits for an operator.", func(s *adapters.RouteStats) float64 { return flag(s.Stopped != "") }),
		gaugeOf("source_failing", "1 while this instance cannot read the route's source.", func(s *adapters.RouteStats) float64 { return flag(s.SourceError != "") }),
		gaugeOf("state_failing", "1 while this instance cannot write the route's progress.", func(s *adapters.RouteStats) float64 { return flag(s.StateError != "") }),
		gaugeOf("in_flight", "Messages read and not durably settled.", func(s *adapters.RouteStats) float64 { return float64(s.InFlight) }),
		gaugeOf("parked_groups", "Groups that wait in the parking, of the lanes of this instance.", func(s *adapters.RouteStats) float64 { return float64(s.ParkedNow) }),
		gaugeOf("lanes", "Lanes that this instance owns.", func(s *adapters.RouteStats) float64 { return float64(s.Lanes) }),
		gaugeOf("addresses_down", "Addresses that are paused and probed.", func(s *adapters.RouteStats) float64 { return float64(len(s.Down)) }),
		gaugeOf("waiting_for_address", "Messages that failed and wait until their address is back.", func(s *adapters.RouteStats) (n float64) {
			for _, a := range s.Down {
				n += float64(a.Held)
			}
			return n
		}),
	}
	queueMetrics = []routeMetric{
		gaugeOf("queue_claimed", "Rows of the route's queue that are claimed and not settled, over all routes of the queue.",
			func(s *adapters.RouteStats) float64 { return float64(s.Queue.Claimed) }),
		gaugeOf("queue_unmatched", "Rows of the route's queue that no route matches, as far as the latest claim looked.",
			func(s *adapters.RouteStats) float64 { return float64(s.Queue.Unmatched) }),
		counterOf("queue_lost_total", "Rows of the route's queue that another process took back as stuck while they were claimed here.",
			func(s *adapters.RouteStats) int64 { return s.Queue.Lost }),
		counterOf("queue_recovered_total", "Rows of the route's queue that were put back after having been processed for too long.",
			func(s *adapters.RouteStats) int64 { return s.Queue.Recovered }),
		counterOf("queue_hot_enqueued_total", "Committed rows of the route's queue that came into the hot queue, to be delivered from memory.",
			func(s *adapters.RouteStats) int64 { return s.Queue.HotTaken }),
		counterOf("queue_hot_dropped_total", "Committed rows of the route's queue for which the hot queue had no room; the poll finds them.",
			func(s *adapters.RouteStats) int64 { return s.Queue.HotDropped }),
		gaugeOf("queue_hot_waiting", "Rows in the hot queue.", func(s *adapters.RouteStats) float64 { return float64(s.Queue.HotWaiting) }),
	}
	skippedTotal = routeDesc("skipped_total", "Messages that were not to be delivered.", "reason")
	latency      = routeDesc("delivery_latency_seconds",
		"Time from creation to delivery. Each message of a quiet route is measured; of a busy one each 64th, which counts for all since the one before. "+
			"A route has this histogram when it has delivered.")
	downSince = routeDesc("address_down_since_timestamp_seconds",
		"When the address of the route went down that is down the longest, as this instance knows. Missing while none is down.")
)

// collector reads the router's counters when Prometheus scrapes.
type collector struct{ stats func() []adapters.RouteStats }

// NewCollector returns the metrics of the routes of this process.
func NewCollector(stats func() []adapters.RouteStats) prometheus.Collector { return collector{stats} }

// Describe implements prometheus.Collector.
func (c collector) Describe(out chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, out) }

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	stats := c.stats()
	for i := range stats {
		s := &stats[i]
		for _, m := range routeMetrics {
			out <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(s), s.Route)
		}
		for reason, n := range s.Skipped {
			out <- prometheus.MustNewConstMetric(skippedTotal, prometheus.CounterValue, float64(n), s.Route, reason)
		}
		if count, below := histogram(s.Ages); count > 0 {
			out <- prometheus.MustNewConstHistogram(latency, count, s.AgeSum, below, s.Route)
		}
		var since time.Time
		for _, a := range s.Down {
			if since.IsZero() || a.Since.Before(since) {
				since = a.Since
			}
		}
		if !since.IsZero() {
			out <- prometheus.MustNewConstMetric(downSince, prometheus.GaugeValue, float64(since.UnixMilli())/1000, s.Route)
		}
		if s.Queue == nil {
			continue
		}
		for _, m := range queueMetrics {
			out <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(s), s.Route)
		}
	}
}

func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// overdueRows is the metric of the watchdog. A route has a series of each cause, so that none of them begins or ends with a finding.
var overdueRows = prometheus.NewDesc("outrider_overdue_rows",
	"Rows that have been visible for longer than the watchdog's limit and that the route has not settled, as far as it looked, by the cause; 0 when there is none.",
	[]string{"route", "cause"}, nil)

// Describe implements prometheus.Collector: which metrics there are depends on the configuration.
func (*Console) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector: it shows what the watchdog found, and what was counted last.
func (c *Console) Collect(out chan<- prometheus.Metric) {
	c.gauges.collect(out)
	c.collectPublishers(out)
	w := c.watch.Load()
	if w == nil {
		return
	}
	for _, r := range c.relay.Config().Routes {
		found := w.overdue(r.Name)
		for _, cause := range overdueCauses {
			rows := 0
			if found != nil && found.Cause == cause {
				rows = found.Rows
			}
			out <- prometheus.MustNewConstMetric(overdueRows, prometheus.GaugeValue, float64(rows), r.Name, string(cause))
		}
	}
}

// overdueCauses are the causes that the watchdog names, by how much they explain.
var overdueCauses = []status.CauseKind{status.CauseBehind, status.CauseAddress, status.CauseNoOwner, status.CauseStuck}
