package console

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/config"
)

// StatisticsJob sums up in the log what this process has delivered.
type StatisticsJob struct {
	stats func() []adapters.RouteStats
	log   *slog.Logger
	level slog.Level
	every time.Duration

	begun, last time.Time
	total       int64            // when the last line was written
	counted     map[string]int64 // by route, then; a reload has that of a changed route begin anew
}

// mostRoutes bounds the routes that a line names: those that delivered most.
const mostRoutes = 10

// NewStatisticsJob returns the job of a configuration; nil: it wants none. stats returns the counters of all routes, each 0 now.
func NewStatisticsJob(cfg *config.Config, stats func() []adapters.RouteStats, log *slog.Logger) *StatisticsJob {
	if cfg.Statistics.Every <= 0 {
		return nil
	}
	j := &StatisticsJob{stats: stats, log: log, every: cfg.Statistics.Every.Std()}
	if err := j.level.UnmarshalText([]byte(cfg.Statistics.Level)); err != nil {
		j.level = slog.LevelInfo // one that no file can have
	}
	return j
}

// Run writes a line in each interval in which something was delivered, and one for the rest when ctx ends.
func (j *StatisticsJob) Run(ctx context.Context) {
	j.begun = time.Now()
	j.last = j.begun
	ticks := time.NewTicker(j.every)
	defer ticks.Stop()
	for {
		select {
		case <-ticks.C:
			j.write(ctx)
		case <-ctx.Done():
			j.write(context.WithoutCancel(ctx))
			return
		}
	}
}

// routeCount is how many messages a route has delivered.
type routeCount struct {
	route string
	n     int64
}

// write writes a line if something was delivered since the last one.
func (j *StatisticsJob) write(ctx context.Context) {
	var fresh int64
	var counts []routeCount
	counted := map[string]int64{}
	for _, s := range j.stats() {
		if s.Delivered > 0 {
			counts, counted[s.Route] = append(counts, routeCount{s.Route, s.Delivered}), s.Delivered
			before := j.counted[s.Route]
			if s.Delivered < before {
				before = 0
			}
			fresh += s.Delivered - before
		}
	}
	j.counted = counted
	now := time.Now()
	if fresh == 0 {
		j.last = now
		return
	}
	slices.SortFunc(counts, func(a, b routeCount) int { return cmp.Or(cmp.Compare(b.n, a.n), cmp.Compare(a.route, b.route)) })
	most := map[string]int64{}
	for _, c := range counts[:min(len(counts), mostRoutes)] {
		most[c.route] = c.n
	}
	perSecond := float64(fresh) / max(now.Sub(j.last).Seconds(), 0.001)
	j.log.LogAttrs(ctx, j.level, "outbox statistics of all routes", slog.Int64("delivered", j.total+fresh), slog.Int64("since_last", fresh),
		slog.Float64("per_second", float64(int64(perSecond*10))/10), slog.Duration("uptime", now.Sub(j.begun).Round(time.Second)),
		slog.Int("routes", len(counts)), slog.Any("most", most))
	j.total, j.last = j.total+fresh, now
}
