package assembly

import (
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/middleware"
	"github.com/outriderhq/outrider/router"
)

// Chains run after deliveries only where all middleware has the marker, the
// application's too; then the timeout limits the delivery itself.
func TestWhichRoutesDeliverFirst(t *testing.T) {
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
		", middleware: [{metrics: {}}]": {true, 0},
		", middleware: [metrics, tracing, poison, retry, {timeout: 3s}]": {true, 3 * time.Second},
		", middleware: [{throttle: 5/s}, {poison: {}}]":                  {false, 0},
		", middleware: [{poison: {}}, {dedupe: {store: memory}}]":        {false, 0},
		", middleware: [{timeout: 9s}, {poison: {then: hold}}]":          {true, 9 * time.Second},
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
		route := func(own ...middleware.Layer) (out router.Route) {
			b := NewBuilder(cfg, OptionsOf([]Option{func(o *Options) { o.Middleware["r"] = own }}))
			p := &Parts{}
			out.Name = "r"
			if err := b.stack(t.Context(), b.layers(p, cfg.Routes[0], &out), nil, &out); err != nil {
				t.Errorf("%q: %v", stack, err)
			}
			return out
		}
		for name, r := range map[string]router.Route{
			"nothing else": route(), "a marked middleware of the application's": route(middleware.AfterDelivery(passOn)),
		} {
			if r.DeliverFirst != want.deliverFirst || r.SendTimeout != want.limit {
				t.Errorf("%q with %s: %t with a limit of %v, want %t with %v", stack, name, r.DeliverFirst, r.SendTimeout, want.deliverFirst, want.limit)
			}
		}
		for name, own := range map[string][]middleware.Layer{
			"an unmarked one": {middleware.Func(passOn)}, "one of two marked": {middleware.AfterDelivery(passOn), middleware.Func(passOn)},
		} {
			if r := route(own...); r.DeliverFirst || r.SendTimeout != 0 {
				t.Errorf("%q with %s: it may do anything, but runs after deliveries", stack, name)
			}
		}
	}
}
