package console

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/config"
)

// A line is written when something was delivered since the line before, with the routes that delivered most; the last one when the job ends.
func TestStatisticsJob(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	var stats []adapters.RouteStats
	cfg := &config.Config{Statistics: config.Statistics{Every: config.Duration(time.Hour), Level: "warn"}}
	j := NewStatisticsJob(cfg, func() []adapters.RouteStats { return stats }, slog.New(slog.NewJSONHandler(&out, nil)))
	ended, end := context.WithCancel(t.Context())
	end()
	j.Run(ended)
	if out.Len() > 0 {
		t.Errorf("nothing was delivered, and the log has %s", out.String())
	}
	for i := range 12 {
		stats = append(stats, adapters.RouteStats{Route: fmt.Sprint("r", i), Delivered: int64(i)})
	}
	j.write(t.Context())
	j.write(t.Context())
	var line struct {
		Level     string           `json:"level"`
		Delivered int64            `json:"delivered"`
		Since     int64            `json:"since_last"`
		Routes    int              `json:"routes"`
		Most      map[string]int64 `json:"most"`
	}
	lines := json.NewDecoder(&out)
	if err := lines.Decode(&line); err != nil || line.Level != "WARN" || line.Delivered != 66 || line.Since != 66 || line.Routes != 11 || len(line.Most) != 10 || line.Most["r2"] != 2 || line.Most["r11"] != 11 {
		t.Errorf("the line is %+v, %v", line, err)
	}
	if lines.More() {
		t.Error("a second line although nothing was delivered since the first")
	}
	stats[0].Delivered = 4
	j.Run(ended)
}

func TestNoStatisticsJob(t *testing.T) {
	t.Parallel()
	if j := NewStatisticsJob(&config.Config{}, nil, nil); j != nil {
		t.Errorf("a configuration without statistics has %+v", j)
	}
}
