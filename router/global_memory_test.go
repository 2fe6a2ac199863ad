package router

import (
	"fmt"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
)

// While a message of a route that is down stays in memory, large rows are read one by one, also in global order and beside routes that have it.
func TestG1_G7_LargeRowsAreReadWhileAnotherMessageWaits(t *testing.T) {
	group, global := adapters.OrderGroup, adapters.OrderGlobal
	for name, test := range map[string]struct {
		orders []adapters.OrderMode // of the routes that work
		apart  bool                 // the route that is down has another source
		size   int
	}{
		"global":                    {[]adapters.OrderMode{global}, false, 512 << 10},
		"global, of another source": {[]adapters.OrderMode{global}, true, 512 << 10},
		"one row fits":              {[]adapters.OrderMode{global}, true, 5 << 20},
		"group":                     {[]adapters.OrderMode{group}, true, 512 << 10},
		"mixed":                     {[]adapters.OrderMode{group, global, global}, true, 512 << 10},
		"mixed, one row fits":       {[]adapters.OrderMode{group, global, global}, false, 5 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, wave, func(r *rig) {
				r.config.Memory = 8 << 20
				down, other := &receiver{ordering: wave}, r.source
				down.setFail(func(string, *message.Message) error { return outbox.Unavailable(errInjected, 0) })
				if test.apart {
					other = &memSource{}
				}
				other.add(&adapters.Row{ID: "stuck", Type: "stuck", Group: "s", Payload: []byte(`{}`), CreatedAt: time.Now()})
				const rows = 60
				payload := make([]byte, test.size)
				for i := range rows {
					r.source.add(&adapters.Row{ID: fmt.Sprint("m", i), Type: "t", Group: fmt.Sprint("g", i), Payload: payload, CreatedAt: time.Now()})
				}
				routes := []Route{r.route(func(rt *Route) {
					rt.Name, rt.Destination, rt.Source = "down", down, other
					rt.Match = func(row *adapters.Row) bool { return row.Type == "stuck" }
				})}
				var got []*receiver
				for i, order := range test.orders {
					got = append(got, &receiver{ordering: wave})
					routes = append(routes, r.route(func(rt *Route) {
						rt.Name, rt.Destination, rt.Order = fmt.Sprint("works", i), got[i], order
						rt.Match = func(row *adapters.Row) bool { return row.Type != "stuck" }
					}))
				}
				r.start(routes...)
				time.Sleep(5 * time.Minute)
				for i, dest := range got {
					if n := dest.count(); n != rows {
						t.Errorf("route %d, order %s: %d of %d were delivered", i, test.orders[i], n, rows)
					}
				}
				r.stop()
			})
		})
	}
}
