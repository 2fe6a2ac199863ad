package ownership

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"

	"github.com/outriderhq/outrider/adapters"
)

// assign computes how many lanes of each route every living instance is to own. It depends only on which instances run which routes, so instances
// that see the same reach the same result. It does not say which lanes, so that few lanes move.
//
// The lanes of a route are divided evenly, to within one, among the instances that run it, and so that instances are even over all routes, too.
// Lanes that move as a whole (a unit) count as one lane.
func assign(instances []adapters.Instance) *assignment {
	s := &assignment{runs: map[string][]string{}, load: map[string]int{}, shares: map[string]map[string]int{}}
	unit := map[string]string{} // by route
	for _, i := range instances {
		if !i.Alive {
			continue
		}
		s.shares[i.ID] = map[string]int{}
		for _, r := range i.Routes {
			if r.Waits != "" {
				continue
			}
			s.runs[r.Route] = append(s.runs[r.Route], i.ID)
			// Instances may disagree while a new configuration is rolled out: what is a unit to one of them is one to all.
			if r.Unit != "" && (unit[r.Route] == "" || r.Unit < unit[r.Route]) {
				unit[r.Route] = r.Unit
			}
		}
	}
	s.dealUnits(unit)
	s.dealLanes(unit)
	return s
}

// assignment is the result of assign.
type assignment struct {
	runs   map[string][]string       // who runs a route
	load   map[string]int            // of an instance: lanes and units
	shares map[string]map[string]int // lanes, by instance and route
}

// share is how many lanes of a route an instance is to own.
func (a *assignment) share(instance, route string) int { return a.shares[instance][route] }

// candidacy is a unit and the instances that could own it.
type candidacy struct {
	unit   string
	routes []string
	who    []string
}

// candidacies lists the units. If instances run different routes of one, only those that run the most can own it.
func (a *assignment) candidacies(unit map[string]string) []candidacy {
	byUnit := map[string]*candidacy{}
	counts := map[string]map[string]int{}
	for _, route := range slices.Sorted(maps.Keys(unit)) {
		u := unit[route]
		if byUnit[u] == nil {
			byUnit[u], counts[u] = &candidacy{unit: u}, map[string]int{}
		}
		byUnit[u].routes = append(byUnit[u].routes, route)
		for _, id := range a.runs[route] {
			counts[u][id]++
		}
	}
	var out []candidacy
	for u, c := range byUnit {
		most := slices.Max(slices.Collect(maps.Values(counts[u])))
		for _, id := range slices.Sorted(maps.Keys(counts[u])) {
			if counts[u][id] == most {
				c.who = append(c.who, id)
			}
		}
		out = append(out, *c)
	}
	// Units with the fewest candidates first.
	slices.SortFunc(out, func(x, y candidacy) int {
		return cmp.Or(cmp.Compare(len(x.who), len(y.who)), cmp.Compare(x.unit, y.unit))
	})
	return out
}

// dealUnits gives each unit to the instance with the highest rendezvous weight among those that have less than their part, so most units stay
// when an instance comes or goes.
func (a *assignment) dealUnits(unit map[string]string) {
	units := a.candidacies(unit)
	who := map[string]bool{}
	for _, c := range units {
		for _, id := range c.who {
			who[id] = true
		}
	}
	if len(who) == 0 {
		return
	}
	each, extra := len(units)/len(who), len(units)%len(who)
	for _, c := range units {
		roomy := slices.DeleteFunc(slices.Clone(c.who), func(id string) bool {
			return a.load[id] > each || a.load[id] == each && extra == 0
		})
		if len(roomy) == 0 {
			roomy = a.leastLoaded(c.who)
		}
		owner := slices.MaxFunc(roomy, func(x, y string) int { return cmp.Compare(rendezvousWeight(c.unit, x), rendezvousWeight(c.unit, y)) })
		for _, route := range c.routes {
			a.shares[owner][route] = adapters.Slots
		}
		if a.load[owner] >= each {
			extra = max(extra-1, 0)
		}
		a.load[owner]++
	}
}

func (a *assignment) leastLoaded(who []string) []string {
	least := a.load[who[0]]
	for _, id := range who {
		least = min(least, a.load[id])
	}
	return slices.DeleteFunc(slices.Clone(who), func(id string) bool { return a.load[id] > least })
}

// dealLanes divides the lanes of routes that are in no unit.
func (a *assignment) dealLanes(unit map[string]string) {
	for _, route := range slices.Sorted(maps.Keys(a.runs)) {
		if unit[route] != "" {
			continue
		}
		who := slices.Clone(a.runs[route])
		slices.SortFunc(who, func(x, y string) int {
			return cmp.Or(cmp.Compare(a.load[x], a.load[y]), cmp.Compare(rendezvousWeight(route, y), rendezvousWeight(route, x)))
		})
		for i, id := range who {
			n := adapters.Slots / len(who)
			if i < adapters.Slots%len(who) {
				n++
			}
			a.shares[id][route] = n
			a.load[id] += n
		}
	}
}

// rendezvousWeight is a hash by which something prefers an instance; all instances compute the same.
func rendezvousWeight(what, instance string) uint64 {
	sum := sha256.Sum256([]byte(what + "\x00" + instance))
	return binary.BigEndian.Uint64(sum[:])
}
