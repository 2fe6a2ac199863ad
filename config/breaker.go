package config

import "github.com/outriderhq/outrider/config/internal/form"

// defaultFailures is the default of [Breaker.Failures].
const defaultFailures = 5

// Breaker stops attempts after too many failed.
type Breaker struct {
	Failures int      `yaml:"failures" min:"1" max:"1000000" doc:"Consecutive failures that open the breaker. Default: 5, or no limit if ratio is set."`
	Ratio    float64  `yaml:"ratio" min:"0" max:"1" doc:"Share of failed attempts within interval that opens the breaker. Default: none."`
	Requests int      `yaml:"requests" default:"20" min:"1" max:"1000000" doc:"Attempts within interval before ratio counts."`
	Interval Duration `yaml:"interval" default:"60s" min:"1s" max:"24h" doc:"Period over which ratio is computed."`
	Open     Duration `yaml:"open" default:"10s" min:"100ms" max:"24h" doc:"How long an open breaker stops attempts."`
	Probes   int      `yaml:"probes" default:"1" min:"1" max:"10000" doc:"Consecutive deliveries that close the breaker afterwards."`
}

// Kind is "breaker".
func (*Breaker) Kind() string { return "breaker" }

func (b *Breaker) check(c *form.Checker, at form.Location) {
	if b.Ratio == 0 && at.Sound("ratio") {
		for _, key := range []string{"requests", "interval"} {
			if at.Has(key) {
				c.Add(at.Child(key), "applies to ratio, which is not set").Fix("add ratio, for example ratio: 0.5, or remove %s", key)
			}
		}
	}
	if !at.Has("failures") && b.Ratio == 0 {
		b.Failures = defaultFailures
	}
}
