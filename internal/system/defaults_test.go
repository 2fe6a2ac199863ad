package system_test

import (
	"testing"

	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/middleware"
	"github.com/outriderhq/outrider/router"
)

// The configuration declares its defaults in its own words, since it imports
// nothing of ours; they must be those of the code that they configure.
func TestDefaultsOfTheConfigurationAreThoseOfTheCode(t *testing.T) {
	t.Parallel()
	cfg, err := config.Parse("t", []byte(`
sources: {app: {type: sqlite, path: /tmp/x.db}}
destinations: {out: {type: log}}
routes: {r: {from: app, to: out, middleware: [{dedupe: {store: memory}}, {poison: {}}, {retry: {}}, {breaker: {}}, {timeout: {}}]}}
`), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	same := func(what string, got, want any) {
		t.Helper()
		if got != want {
			t.Errorf("%s is %v in the configuration, and %v in the code", what, got, want)
		}
	}
	for _, m := range cfg.Routes[0].Middleware {
		switch m := m.(type) {
		case *config.Retry:
			same("retry.attempts", m.Attempts, middleware.DefaultAttempts)
			same("retry.base", m.Base.Std(), middleware.DefaultBase)
			same("retry.max", m.Max.Std(), middleware.DefaultMax)
			same("retry.jitter", m.Jitter, middleware.DefaultJitter)
		case *config.Timeout:
			same("timeout", m.After.Std(), middleware.DefaultLimit)
		case *config.Dedupe:
			same("dedupe.window", m.Window.Std(), middleware.DefaultWindow)
		case *config.Breaker:
			same("breaker.open", m.Open.Std(), middleware.DefaultOpen)
		}
	}
	same("memory", int64(cfg.Memory), int64(router.DefaultMemory))
	same("lease", cfg.Lease.Std(), router.DefaultLease)
	same("settle_interval", cfg.SettleInterval.Std(), router.DefaultSettleInterval)
	same("drain_timeout", cfg.DrainTimeout.Std(), router.DefaultDrainTimeout)
	same("window", cfg.Routes[0].Window, router.DefaultWindow)
}
