package config

import (
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
