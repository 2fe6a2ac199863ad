package statestore

import (
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters"
)

// renewSQL extends a lease and returns what the instance owns, a row for each route: slot, epoch, revision and commands of its lanes.
const renewSQL = renewLease + `
SELECT route, string_agg(concat_ws(' ', slot, epoch, revision, commands), ' ') FROM outrider_cursor WHERE owner = $1 GROUP BY route`

// renewAsideSQL is the same for an instance that has settled aside.
const renewAsideSQL = renewLease + `
SELECT c.route, string_agg(concat_ws(' ', c.slot, c.epoch, greatest(c.revision, (SELECT n.revision FROM ` + lastAside + `)), c.commands), ' ')
FROM outrider_cursor c WHERE c.owner = $1 GROUP BY c.route`

const renewLease = `
WITH lease AS (
    INSERT INTO outrider_instance (id, lease_until) VALUES ($1, clock_timestamp() + make_interval(secs => $2))
    ON CONFLICT (id) DO UPDATE SET lease_until = EXCLUDED.lease_until, renewed_at = clock_timestamp()
)`

// marksOfLane is how many numbers renewSQL returns for a lane.
const marksOfLane = 4

// ownedLanes keeps the result of the last renewal for the next one. An instance with hundreds of routes owns thousands of lanes, and of most of
// them nothing has changed in a second: so the text of a route is compared before it is taken apart.
type ownedLanes struct {
	routes map[string]*ownedRoute
	lanes  map[adapters.LaneRef]adapters.LaneMark
	shared bool // others hold lanes: it is copied before it changes
	round  int
}

// ownedRoute is the server's answer about a route, and when it was last given.
type ownedRoute struct {
	text  string
	round int
}

func newOwnedLanes() *ownedLanes {
	return &ownedLanes{routes: map[string]*ownedRoute{}, lanes: map[adapters.LaneRef]adapters.LaneMark{}}
}

// read reads the rows of renewSQL. A map that was lanes before does not change. After an error nothing is known.
func (o *ownedLanes) read(rows pgx.Rows) error {
	defer rows.Close()
	o.round++
	var err error
	for err == nil && rows.Next() {
		v := rows.RawValues() // of texts, which are the same in both formats
		known := o.routes[string(v[0])]
		if known == nil || known.text != string(v[1]) {
			known = &ownedRoute{text: string(v[1])}
			err = o.replace(string(v[0]), known)
		}
		known.round = o.round
	}
	if err == nil {
		err = rows.Err()
	}
	if err != nil {
		*o = *newOwnedLanes()
		return err
	}
	for route, known := range o.routes {
		if known.round != o.round {
			o.forget(route)
		}
	}
	o.shared = true
	return nil
}

// forget removes what is known of a route.
func (o *ownedLanes) forget(route string) {
	if o.shared {
		o.lanes, o.shared = maps.Clone(o.lanes), false
	}
	delete(o.routes, route)
	for slot := range adapters.Slots {
		delete(o.lanes, adapters.LaneRef{Route: route, Slot: slot})
	}
}

// replace takes in what the server has said of a route.
func (o *ownedLanes) replace(route string, now *ownedRoute) error {
	o.forget(route)
	o.routes[route] = now
	fields := strings.Fields(now.text)
	for ; len(fields) >= marksOfLane; fields = fields[marksOfLane:] {
		var n [marksOfLane]int64
		for i := range n {
			var err error
			if n[i], err = strconv.ParseInt(fields[i], 10, 64); err != nil {
				return fmt.Errorf("read the lanes of route %q: %w", route, err)
			}
		}
		o.lanes[adapters.LaneRef{Route: route, Slot: int(n[0])}] = adapters.LaneMark{Epoch: n[1], Revision: n[2], Commands: n[3]}
	}
	return nil
}
