package ownership

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/outriderhq/outrider/adapters"
)

// instances returns living instances a, b, c ... that all run the routes. Those
// named u... are units of their own, those named l... belong to one leader.
func instances(n int, routes ...string) []adapters.Instance {
	var out []adapters.Instance
	for i := range n {
		in := adapters.Instance{ID: string(rune('a' + i)), Alive: true}
		for _, name := range routes {
			r := adapters.RunningRoute{Route: name}
			switch name[0] {
			case 'u':
				r.Unit = "route " + name
			case 'l':
				r.Unit = "source app"
			}
			in.Routes = append(in.Routes, r)
		}
		out = append(out, in)
	}
	return out
}

func routeNames(prefix string, n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("%s%d", prefix, i))
	}
	return out
}

// portions are the shares of one route, in order of size.
func (a *assignment) portions(route string) []int {
	var out []int
	for _, shares := range a.shares {
		out = append(out, shares[route])
	}
	slices.Sort(out)
	return out
}

// moved is how many lanes have to change hands from one spreading to the next,
// when each instance keeps what it may.
func moved(before, after *assignment) (n int) {
	for id, shares := range after.shares {
		for route, share := range shares {
			n += max(share-before.share(id, route), 0)
		}
	}
	return n
}

func TestAHotRouteIsSpreadOverAll(t *testing.T) {
	t.Parallel()
	for n, want := range map[int][]int{
		1: {16}, 2: {8, 8}, 3: {5, 5, 6}, 5: {3, 3, 3, 3, 4}, 16: slices.Repeat([]int{1}, 16),
		18: append([]int{0, 0}, slices.Repeat([]int{1}, 16)...),
	} {
		if got := assign(instances(n, "orders")).portions("orders"); !slices.Equal(got, want) {
			t.Errorf("16 lanes over %d instances: %v, want %v", n, got, want)
		}
	}
}

// However many routes and instances there are, each route is even to within one
// lane and so are the instances, units counted as one lane; and nothing is left.
func TestInstancesAreEvenToWithinOneLane(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		names := slices.Concat(routeNames("r", random.IntN(20)), routeNames("u", random.IntN(20)), routeNames("l", random.IntN(3)))
		if len(names) == 0 {
			continue
		}
		n := 1 + random.IntN(20)
		s := assign(instances(n, names...))
		least, most := slices.Min(loads(s)), slices.Max(loads(s))
		if most-least > 1 {
			t.Errorf("seed %d: %d instances, %d routes: from %d to %d", seed, n, len(names), least, most)
		}
		for _, name := range names {
			p := s.portions(name)
			sum := 0
			for _, x := range p {
				sum += x
			}
			if sum != adapters.Slots || name[0] == 'r' && p[len(p)-1]-p[0] > 1 || name[0] != 'r' && p[len(p)-1] != adapters.Slots {
				t.Errorf("seed %d: route %s is spread as %v", seed, name, p)
			}
		}
	}
}

func loads(s *assignment) (out []int) {
	for id := range s.shares {
		out = append(out, s.load[id])
	}
	return out
}

// An instance that joins gets its share and little else moves.
func TestFewLanesMoveWhenAnInstanceJoins(t *testing.T) {
	t.Parallel()
	names := slices.Concat(routeNames("r", 20), routeNames("u", 30))
	for n := 1; n < 12; n++ {
		before, after := assign(instances(n, names...)), assign(instances(n+1, names...))
		joined := after.shares[string(rune('a'+n))]
		share := 0
		for v := range maps.Values(joined) {
			share += v
		}
		// Beside its share: a lane here and there, and units that make room for others.
		if got := moved(before, after); got < share || got > 2*share+20+2*adapters.Slots {
			t.Errorf("from %d to %d instances %d lanes move, %d of them to the new one", n, n+1, got, share)
		}
	}
}

func TestAnInstanceCountsForWhatItRunsOnly(t *testing.T) {
	t.Parallel()
	in := append(instances(2, "old", "new"), adapters.Instance{ID: "x", Alive: true, Routes: []adapters.RunningRoute{{Route: "old"}}})
	in = append(in,
		adapters.Instance{ID: "dead", Routes: []adapters.RunningRoute{{Route: "old"}}},
		adapters.Instance{ID: "waits", Alive: true, Routes: []adapters.RunningRoute{{Route: "old", Waits: "its source cannot be reached"}}})
	s := assign(in)
	if s.share("x", "new") != 0 || s.share("a", "new") != 8 || s.share("x", "old") < 5 || s.share("waits", "old") != 0 || s.share("dead", "old") != 0 {
		t.Errorf("shares are %v", s.shares)
	}
	if none := assign(nil); none.share("a", "old") != 0 {
		t.Error("nobody has a share")
	}
}

// A leader works all routes of its source: where instances run different ones,
// it is one of those who run the most.
func TestALeaderRunsTheMostRoutes(t *testing.T) {
	t.Parallel()
	in := instances(3, "l0", "l1")
	in[2].Routes = append(in[2].Routes, adapters.RunningRoute{Route: "l2", Unit: "source app"})
	s := assign(in)
	for _, route := range []string{"l0", "l1", "l2"} {
		if s.share("c", route) != adapters.Slots || s.share("a", route)+s.share("b", route) != 0 {
			t.Errorf("route %s: %v", route, s.shares)
		}
	}
	// Somebody whose configuration does not call it a unit is no second owner.
	in = instances(2, "u0")
	in[1].Routes[0].Unit = ""
	if p := assign(in).portions("u0"); !slices.Equal(p, []int{0, adapters.Slots}) {
		t.Errorf("a route that is a unit for one of two is spread as %v", p)
	}
}
