package console

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/config"
)

// The metrics of Crablet's outbox, by the names that its dashboards have, of the routes with progress.
var (
	outboxPublished   = prometheus.NewDesc("outbox_events_published_total", "Events that publishers of routes with progress took.", nil, nil)
	outboxPublishedBy = prometheus.NewDesc("outbox_events_published_by_publisher_total", "The same by publisher.", []string{"publisher"}, nil)
	outboxErrors      = prometheus.NewDesc("outbox_errors_total", "Attempts of routes with progress that failed.", nil, nil)
	outboxErrorsBy    = prometheus.NewDesc("outbox_errors_by_publisher_total", "The same by publisher.", []string{"publisher"}, nil)
	outboxPublishing  = prometheus.NewDesc("outbox_publishing_duration_seconds", "Deliveries of routes with progress, and how long they took, by publisher.", []string{"publisher"}, nil)
	outboxCycles      = prometheus.NewDesc("outbox_processing_cycles_total", "Looks for events of routes with progress and a poll of their own.", nil, nil)
	outboxLeader      = prometheus.NewDesc("outbox_is_leader", "1 while this instance works routes with progress.", []string{"instance"}, nil)
	outboxLag         = prometheus.NewDesc("outbox_lag", "Positions between a publisher's last one and the last event.", []string{"topic", "publisher"}, nil)
	outboxAutoPause   = prometheus.NewDesc("outbox_auto_pause_total", "How often a publisher was seen to become FAILED.", []string{"topic", "publisher"}, nil)
	outboxActive      = prometheus.NewDesc("outbox_publishers_active", "Rows of progress with status ACTIVE.", nil, nil)
	outboxPaused      = prometheus.NewDesc("outbox_publishers_paused", "Rows of progress with status PAUSED.", nil, nil)
	outboxFailed      = prometheus.NewDesc("outbox_publishers_failed", "Rows of progress with status FAILED.", nil, nil)
)

// collectPublishers shows the counters of the routes with progress.
func (c *Console) collectPublishers(out chan<- prometheus.Metric) {
	stats := c.PublisherStats()
	if len(stats) == 0 {
		return
	}
	counter := func(d *prometheus.Desc, n int64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	published, failed, batches, sending := map[string]int64{}, map[string]int64{}, map[string]adapters.AgeCounts{}, map[string]float64{}
	var allPublished, allFailed, cycles int64
	leads := false
	for _, s := range stats {
		n := s.Retried + s.Dead
		published[s.Publisher] += s.Delivered
		failed[s.Publisher] += n
		sum := batches[s.Publisher]
		for i, n := range s.Batches {
			sum[i] += n
		}
		batches[s.Publisher] = sum
		sending[s.Publisher] += s.Sending.Seconds()
		allPublished, allFailed, cycles = allPublished+s.Delivered, allFailed+n, cycles+s.Polls
		leads = leads || s.Lanes > 0
	}
	counter(outboxPublished, allPublished)
	counter(outboxErrors, allFailed)
	counter(outboxCycles, cycles)
	for publisher, n := range published {
		counter(outboxPublishedBy, n, publisher)
		counter(outboxErrorsBy, failed[publisher], publisher)
		count, below := histogram(batches[publisher])
		out <- prometheus.MustNewConstHistogram(outboxPublishing, count, sending[publisher], below, publisher)
	}
	if c.relay.Instance != nil {
		out <- prometheus.MustNewConstMetric(outboxLeader, prometheus.GaugeValue, flag(leads), c.relay.Instance())
	}
}

// histogram is counts as Prometheus has them: how many there are in all, and up to each bound in seconds.
func histogram(counts adapters.AgeCounts) (all uint64, below map[float64]uint64) {
	below = map[float64]uint64{}
	for i, n := range counts {
		all += uint64(n)
		if i < len(adapters.AgeBounds) {
			below[adapters.AgeBounds[i].Seconds()] = all
		}
	}
	return all, below
}

// publisherFailures counts how often rows became FAILED, by what each count finds.
type publisherFailures struct {
	was   map[[2]string]string // status by topic and publisher
	count map[[2]string]int64
}

// add counts the rows that became FAILED. Those that are FAILED the first time became so at a time that is not known.
func (f *publisherFailures) add(rows []adapters.Progress) {
	is := map[[2]string]string{}
	for _, p := range rows {
		pair := [2]string{p.Topic, p.Publisher}
		is[pair] = p.Status
		if f.count == nil {
			f.count = map[[2]string]int64{}
		}
		n := f.count[pair]
		if was, known := f.was[pair]; known && p.Status == adapters.ProgressFailed && was != adapters.ProgressFailed {
			n++
		}
		f.count[pair] = n
	}
	f.was = is
}

// publishers are the gauges of the tables of progress.
func (g *gauges) publishers(ctx context.Context, op *operate.Operator) (found []prometheus.Metric) {
	if len(op.ProgressSources()) == 0 {
		return nil
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		found = append(found, prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...))
	}
	rows, err := op.Publishers(ctx, "")
	if err != nil {
		return nil
	}
	states := map[string]int{}
	g.failures.add(rows)
	for _, p := range rows {
		states[p.Status]++
		found = append(found, prometheus.MustNewConstMetric(outboxAutoPause, prometheus.CounterValue, float64(g.failures.count[[2]string{p.Topic, p.Publisher}]), p.Topic, p.Publisher))
	}
	gauge(outboxActive, float64(states[adapters.ProgressActive]))
	gauge(outboxPaused, float64(states[adapters.ProgressPaused]))
	gauge(outboxFailed, float64(states[adapters.ProgressFailed]))
	lags, err := op.PublisherLags(ctx, "")
	if err != nil {
		return found
	}
	for _, l := range lags {
		gauge(outboxLag, float64(l.Behind), l.Topic, l.Publisher)
	}
	return found
}

// PublisherStats are the counters of a route with progress in this process.
type PublisherStats struct {
	Topic, Publisher string
	adapters.RouteStats

	Pause time.Duration // the usual one between two looks for events; 0: the route has no pace of its own
}

// PublisherStats returns the counters of the routes with progress.
func (c *Console) PublisherStats() (out []PublisherStats) {
	of := map[string]*config.Route{}
	cfg := c.relay.Config()
	for i := range cfg.Routes {
		if r := &cfg.Routes[i]; r.Progress != nil {
			of[r.Name] = r
		}
	}
	for _, s := range c.relay.Stats() {
		r := of[s.Route]
		if r == nil {
			continue
		}
		p := PublisherStats{Topic: r.Progress.Topic, Publisher: r.Progress.Publisher, RouteStats: s}
		if r.Poll != nil {
			p.Pause = r.Poll.Min.Std()
		}
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b PublisherStats) int {
		return strings.Compare(a.Topic+"\x00"+a.Publisher, b.Topic+"\x00"+b.Publisher)
	})
	return out
}
