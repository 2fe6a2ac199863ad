package assembly

import (
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/router"
)

// Chains run after deliveries only where all middleware is known to look at
// nothing but what came of them; then the timeout limits the delivery itself.
func TestWhichRoutesLookBack(t *testing.T) {
	t.Parallel()
	passOn := func(h message.HandlerFunc) message.HandlerFunc { return h }
	for stack, want := range map[string]struct {
		deliverFirst bool
		limit        time.Duration
	}{
		"":                              {true, 30 * time.Second},
		", middleware: []":              {true, 0},
		", middleware: [{timeout: 5s}]": {true, 5 * time.Second},
		", middleware: [{retry: {}}]":   {true, 0},
		", middleware: [{breaker: {}}]": {false, 0},
		", middleware: [{metrics: {}}]": {false, 0},
		", middleware: [{throttle: 5/s}, {poison: {}}]":           {false, 0},
		", middleware: [{poison: {}}, {dedupe: {store: memory}}]": {false, 0},
		", middleware: [{timeout: 9s}, {poison: {then: hold}}]":   {true, 9 * time.Second},
	} {
		cfg, err := config.Parse("t", []byte(`
sources: {app: {type: sqlite, path: /tmp/x.db}}
destinations: {out: {type: log}}
routes: {r: {from: app, to: out`+stack+`}}
`), func(string) (string, bool) { return "", false })
		if err != nil {
			t.Errorf("%s: %v", stack, err)
			continue
		}
		b := NewBuilder(cfg, OptionsOf(nil))
		var first, second router.Route
		b.layers(&Parts{}, cfg.Routes[0], &first)
		if first.DeliverFirst != want.deliverFirst || first.SendTimeout != want.limit {
			t.Errorf("%q: %t with a limit of %v, want %t with %v", stack, first.DeliverFirst, first.SendTimeout, want.deliverFirst, want.limit)
		}
		b.Options.Middleware["r"] = []message.HandlerMiddleware{passOn}
		if b.layers(&Parts{}, cfg.Routes[0], &second); second.DeliverFirst {
			t.Errorf("%q with a middleware of the application's: it may do anything, but runs after deliveries", stack)
		}
	}
}
