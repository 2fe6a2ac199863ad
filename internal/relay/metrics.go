package relay

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/outriderhq/outrider/admin/operate"
)

var (
	ready = prometheus.NewDesc("outrider_ready", "1 while /readyz answers 200.", nil, nil)
	info  = prometheus.NewDesc("outrider_build_info", "The build of this process; always 1.", []string{"version", "commit", "goversion"}, nil)

	reloadSuccessful = prometheus.NewDesc("outrider_config_last_reload_successful",
		"1 if the configuration in effect is the one that was read last; 0 if a later one had errors or could not be used.", nil, nil)
	reloadTime = prometheus.NewDesc("outrider_config_last_reload_success_timestamp_seconds",
		"When a configuration was last put into effect, by a start or a reload.", nil, nil)
)

// reloads is how the latest reload ended.
type reloads struct {
	mu     sync.Mutex
	failed bool
	at     time.Time // of the latest one that did not fail
}

// Reloaded notes for the metrics how reading a configuration, or putting it into effect, ended.
func (r *Relay) Reloaded(err error) {
	r.reloads.mu.Lock()
	defer r.reloads.mu.Unlock()
	if r.reloads.failed = err != nil; err == nil {
		r.reloads.at = time.Now()
	}
}

// Describe implements prometheus.Collector: which metrics there are depends on the configuration.
func (*Relay) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector with the metrics of the process and of the latest generation.
func (r *Relay) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	flag := func(b bool) float64 {
		if b {
			return 1
		}
		return 0
	}
	build := operate.Version()
	gauge(info, 1, build.Version, build.Commit, build.Go)
	gauge(ready, flag(r.NotReady() == ""))
	r.reloads.mu.Lock()
	failed, at := r.reloads.failed, r.reloads.at
	r.reloads.mu.Unlock()
	gauge(reloadSuccessful, flag(!failed))
	gauge(reloadTime, float64(at.UnixMilli())/1000)
	if g := r.generation.Load(); g != nil {
		work := g.now()
		work.Metrics.Collect(out)
		work.Layers.Collect(out)
	}
}
