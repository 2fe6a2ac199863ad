package console

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/outriderhq/outrider/adapters"
)

// A route has the points of the last hour from the first known one on, whether it works, idles, leaves with a reload or comes back.
func TestAHistoryHasThePointsOfTheLastHour(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var now []adapters.RouteStats
		h := newHistory(func() []adapters.RouteStats { return now })
		steps, delivered := 0, map[string]int64{}
		want := map[string][]Point{} // since the first step
		away := map[string]int{}     // for how many steps
		for range rapid.IntRange(1, 6).Draw(t, "phases") {
			length := rapid.IntRange(1, 2*HistoryPoints).Draw(t, "length")
			state := map[string]string{}
			for _, route := range []string{"a", "b"} {
				state[route] = rapid.SampledFrom([]string{"idle", "idle", "busy", "absent"}).Draw(t, route)
			}
			for range length {
				now = nil
				for route, s := range state {
					p := Point{Known: s != "absent"}
					if s == "busy" {
						delivered[route] += 3
						p.Delivered = 3
					}
					if away[route]++; p.Known {
						if away[route] > HistoryPoints && delivered[route] > 0 { // what it had counted is forgotten
							p.Delivered = uint32(delivered[route])
						}
						away[route] = 0
						now = append(now, adapters.RouteStats{Route: route, Delivered: delivered[route]})
					}
					want[route] = append(want[route], p)
				}
				h.take(time.Now())
				steps++
			}
			for route, all := range want {
				hour := all[max(0, len(all)-HistoryPoints):]
				if first := slices.IndexFunc(hour, func(p Point) bool { return p.Known }); first < 0 {
					hour = nil
				} else {
					hour = hour[first:]
				}
				if got, _ := h.Route(route); !slices.Equal(got, hour) {
					t.Fatalf("after %d steps route %s has %d points %v, want %d %v", steps, route, len(got), shown(got), len(hour), shown(hour))
				}
			}
		}
	})
}

// shown are the first points and the last ones.
func shown(points []Point) []Point {
	if len(points) <= 6 {
		return points
	}
	return slices.Concat(points[:3], points[len(points)-3:])
}
