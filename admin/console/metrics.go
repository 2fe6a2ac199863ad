package console

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/outriderhq/outrider/adapters"
)

// collector reads the router's counters when Prometheus scrapes.
type collector struct {
	stats func() []adapters.RouteStats

	delivered, retried, dead, parked, skipped, repeated  *prometheus.Desc
	age, latency, inFlight, parkedNow, lanes, down, held *prometheus.Desc
	paused, stopped                                      *prometheus.Desc
	claimed, unmatched, lost, recovered                  *prometheus.Desc
	hotTaken, hotLeft, hotDepth                          *prometheus.Desc
}

// NewCollector returns the metrics of the routes of this process.
func NewCollector(stats func() []adapters.RouteStats) prometheus.Collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("outrider_"+name, help, append([]string{"route"}, labels...), nil)
	}
	return &collector{
		stats:     stats,
		delivered: desc("delivered_total", "Messages that the destination took."),
		retried:   desc("retried_total", "Attempts that failed and counted."),
		dead:      desc("dead_total", "Messages that were taken out for an operator."),
		parked:    desc("parked_total", "Messages that were taken out of the stream to wait."),
		skipped:   desc("skipped_total", "Messages that were not to be delivered.", "reason"),
		repeated:  desc("duplicates_total", "Messages that the route's destination took for duplicates, over all its routes; they count as delivered."),
		age:       desc("age_seconds", "Age of the oldest message that was read and is not delivered; 0 when there is none. It grows while nothing is delivered."),
		latency:   desc("delivery_age_seconds", "Time from creation to delivery of a message delivered recently."),
		paused:    desc("paused", "1 while the route is paused."),
		stopped:   desc("stopped", "1 while the route cannot run and waits for an operator."),
		inFlight:  desc("in_flight", "Messages read and not durably settled."),
		parkedNow: desc("parked_groups", "Groups that wait in the parking, of the lanes of this instance."),
		lanes:     desc("lanes", "Lanes that this instance owns."),
		down:      desc("addresses_down", "Addresses that are paused and probed."),
		held:      desc("waiting_for_address", "Messages that failed and wait until their address is back."),
		claimed:   desc("queue_claimed", "Rows of the route's queue that are claimed and not settled, over all routes of the queue."),
		unmatched: desc("queue_unmatched", "Rows of the route's queue that no route matches, as far as the latest claim looked."),
		lost:      desc("queue_lost_total", "Rows of the route's queue that another process took back as stuck while they were claimed here."),
		recovered: desc("queue_recovered_total", "Rows of the route's queue that were put back after having been processed for too long."),
		hotTaken:  desc("queue_hot_enqueued_total", "Committed rows of the route's queue that came into the hot queue, to be delivered from memory."),
		hotLeft:   desc("queue_hot_dropped_total", "Committed rows of the route's queue for which the hot queue had no room; the poll finds them."),
		hotDepth:  desc("queue_hot_waiting", "Rows in the hot queue."),
	}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, out) }

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	for _, s := range c.stats() {
		counter := func(d *prometheus.Desc, n int64, labels ...string) {
			out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), append([]string{s.Route}, labels...)...)
		}
		gauge := func(d *prometheus.Desc, v float64) {
			out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, s.Route)
		}
		counter(c.delivered, s.Delivered)
		counter(c.retried, s.Retried)
		counter(c.dead, s.Dead)
		counter(c.parked, s.Parked)
		counter(c.repeated, s.Duplicates)
		for reason, n := range s.Skipped {
			counter(c.skipped, n, reason)
		}
		held := 0
		for _, a := range s.Down {
			held += a.Held
		}
		gauge(c.age, s.Oldest.Seconds())
		gauge(c.latency, s.Age.Seconds())
		gauge(c.paused, flag(s.Paused != nil))
		gauge(c.stopped, flag(s.Stopped != ""))
		gauge(c.inFlight, float64(s.InFlight))
		gauge(c.parkedNow, float64(s.ParkedNow))
		gauge(c.lanes, float64(s.Lanes))
		gauge(c.down, float64(len(s.Down)))
		gauge(c.held, float64(held))
		if q := s.Queue; q != nil {
			gauge(c.claimed, float64(q.Claimed))
			gauge(c.unmatched, float64(q.Unmatched))
			counter(c.lost, q.Lost)
			counter(c.recovered, q.Recovered)
			counter(c.hotTaken, q.HotTaken)
			counter(c.hotLeft, q.HotDropped)
			gauge(c.hotDepth, float64(q.HotWaiting))
		}
	}
}

func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// overdueRows is the metric of the watchdog.
var overdueRows = prometheus.NewDesc("outrider_overdue_rows",
	"Rows that have been visible for longer than the watchdog's limit and that the route has not settled, as far as it looked; 0 when there is none.", []string{"route", "cause"}, nil)

// Describe implements prometheus.Collector.
func (c *Console) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{overdueRows, queueUnfinished, queueOldest, queueDead, parkedMessages, destinationDepth,
		outboxPublished, outboxPublishedBy, outboxErrors, outboxErrorsBy, outboxCycles, outboxLeader, outboxLag, outboxAutoPause, outboxActive, outboxPaused, outboxFailed} {
		out <- d
	}
}

// Collect implements prometheus.Collector: it shows what the watchdog found, and what was counted last.
func (c *Console) Collect(out chan<- prometheus.Metric) {
	c.gauges.collect(out)
	c.collectPublishers(out)
	w := c.watch.Load()
	if w == nil {
		return
	}
	for _, r := range c.relay.Config().Routes {
		rows, cause := 0, ""
		if o := w.overdue(r.Name); o != nil {
			rows, cause = o.Rows, string(o.Cause)
		}
		out <- prometheus.MustNewConstMetric(overdueRows, prometheus.GaugeValue, float64(rows), r.Name, cause)
	}
}
