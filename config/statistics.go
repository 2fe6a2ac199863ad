package config

import (
	"time"

	"github.com/outriderhq/outrider/config/internal/form"
)

// Statistics is the interval of the log lines that sum up all deliveries of the process.
type Statistics struct {
	Every Duration `yaml:"every" min:"0s" max:"24h" doc:"Interval of log lines that sum up the deliveries of this process over all routes; a line is written only if there were any. 0s: none. Default: with a source of layout {layouts with statistics} that of the original, otherwise none."`
	Level string   `yaml:"level" enum:"debug|info|warn|error" default:"info" doc:"Level of the lines."`
}

// StatisticsTo counts messages.
type StatisticsTo struct {
	Every Duration `yaml:"every" default:"10s" min:"10ms" max:"24h" doc:"Interval of log lines; a line is written only if messages came."`
	Level string   `yaml:"level" enum:"debug|info|warn|error" default:"info" doc:"Level of the lines."`
}

// Kind is "statistics".
func (*StatisticsTo) Kind() string { return "statistics" }

// statisticsAsPreset takes the interval from the presets of the sources' layouts.
func (cfg *Config) statisticsAsPreset(at form.Location) {
	if at.Has("every") {
		return
	}
	every := time.Duration(0)
	for _, s := range cfg.Sources {
		if table, ok := tableOf(s); ok && table.Preset() != nil {
			if e := table.Preset().Defaults.Statistics; e > 0 && (every == 0 || e < every) {
				every = e
			}
		}
	}
	cfg.Statistics.Every = Duration(every)
}
