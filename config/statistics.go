package config

import "time"

// Statistics says how often the log sums up what the whole process has delivered.
type Statistics struct {
	Every Duration `yaml:"every" min:"0s" max:"24h" doc:"Time between two lines of the log that sum up what this process has delivered, over all routes; written when something was delivered since the line before. 0s: none. Default: with a source of layout {layouts with statistics} that of the original, otherwise none."`
	Level string   `yaml:"level" enum:"debug|info|warn|error" default:"info" doc:"Level of the lines."`
}

// StatisticsTo counts messages.
type StatisticsTo struct {
	Every Duration `yaml:"every" default:"10s" min:"10ms" max:"24h" doc:"Time between two lines of the log, which are written when something came since the line before."`
	Level string   `yaml:"level" enum:"debug|info|warn|error" default:"info" doc:"Level of the lines."`
}

// Kind is "statistics".
func (*StatisticsTo) Kind() string { return "statistics" }

// statisticsAsPreset has the log sum up as the originals of the sources' layouts do.
func (cfg *Config) statisticsAsPreset(at place) {
	if at.has("every") {
		return
	}
	every := time.Duration(0)
	for _, s := range cfg.Sources {
		if src, ok := s.(*Postgres); ok && src != nil && src.Preset() != nil {
			if e := src.Preset().Defaults.Statistics; e > 0 && (every == 0 || e < every) {
				every = e
			}
		}
	}
	cfg.Statistics.Every = Duration(every)
}
