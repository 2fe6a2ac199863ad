package config

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestWebhook(t *testing.T) {
	t.Parallel()
	cfg := good(t, "testdata/good/webhook.yaml")
	least, ok := cfg.Destinations["least"].(*Webhook)
	if !ok || least.Format != "raw" || least.MaxRequests != 64 || least.Capture != 4<<10 || least.Rate.PerSecond() != 0 ||
		least.ConnectTimeout.Std() != 10*time.Second || least.Timeout.Std() != 30*time.Second || least.AllowPrivate || len(least.AllSecrets()) != 1 {
		t.Errorf("defaults: %+v", least)
	}
	most, ok := cfg.Destinations["most"].(*Webhook)
	if !ok || most.Rate.PerSecond() != 1.5 || most.Burst != 3 || most.Headers["X-Api-Key"].Reveal() != canary ||
		most.Status[400] != StatusPermanent || !slices.Equal(most.AllowNetworks, []string{"10.1.0.0/16", "fd00::/8"}) {
		t.Errorf("everything set: %+v", most)
	}
	if s := most.AllSecrets(); len(s) != 2 || !strings.HasPrefix(s[0].Reveal(), "whsec_C2FV") || !strings.HasPrefix(s[1].Reveal(), "whsec_MfKQ") {
		t.Errorf("the file has the secrets %d, want the two in their order", len(s))
	}
	if static(most) || !static(least) {
		t.Error("a URL with placeholders is static, or one without is not")
	}
	if cfg.Warnings = notOfModes(cfg.Warnings); len(cfg.Warnings) != 1 ||
		!strings.Contains(cfg.Warnings[0].Error(), "destinations.most.url: sends its token or headers in the clear") {
		t.Errorf("warnings: %v", cfg.Warnings)
	}
}

// A message to a webhook is given up after days, not minutes, unless the file says
// when.
func TestWebhooksAreRetriedForDays(t *testing.T) {
	t.Parallel()
	for middleware, want := range map[string]Retry{
		"":                                     webhookRetry,
		"middleware: [retry]":                  webhookRetry,
		"middleware: [retry: {}]":              webhookRetry,
		"middleware: [retry: {attempts: 3}]":   {Attempts: 3, Base: Duration(200 * time.Millisecond), Max: Duration(time.Minute), Jitter: 0.5, Growth: "exponential"},
		"middleware: [poison, retry, metrics]": webhookRetry,
	} {
		text := "sources: {app: {type: sqlite, path: app.db}}\ndestinations:\n  hook: {type: webhook, url: 'https://example.com/', secrets: [whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=]}\n" +
			"  log: {type: log}\nroutes:\n  hooks:\n    from: app\n    to: hook\n    " + middleware + "\n  both: {from: app, to: [hook, log]}\n"
		cfg, err := Parse("webhooks.yaml", []byte(text), testEnv)
		if err != nil {
			t.Fatalf("%s\n%v", text, err)
		}
		for _, r := range cfg.Routes {
			for _, m := range r.Middleware {
				if retry, ok := m.(*Retry); ok && r.Name == "hooks" && *retry != want || ok && r.Name != "hooks" && retry.Attempts != 10 {
					t.Errorf("%s: route %s: %+v", middleware, r.Name, retry)
				}
			}
		}
	}
	pause, sum := webhookRetry.Base, time.Duration(0)
	for range webhookRetry.Attempts - 1 {
		sum += min(pause, webhookRetry.Max).Std()
		pause *= 2
	}
	if sum < 72*time.Hour || sum > 120*time.Hour {
		t.Errorf("given up after %v", sum)
	}
}

// A mistyped layout is one mistake, not also what would follow from the default.
func TestAMistypedLayoutIsOneError(t *testing.T) {
	t.Parallel()
	text := "sources:\n  app: {type: postgres, url: 'postgres://127.0.0.1/a', layout: flowcatalist, claims: {in_memory: 5}, tables: {events: e}}\n" +
		"destinations: {log: {type: log}}\nroutes: {all: {from: app, to: log}}\n"
	_, err := Parse("x.yaml", []byte(text), testEnv)
	var found *Errors
	if !errors.As(err, &found) || len(found.List) != 1 || !strings.Contains(found.List[0].Hint, "flowcatalyst") {
		t.Errorf("got %v", err)
	}
}
