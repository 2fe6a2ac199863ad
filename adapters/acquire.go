package adapters

import "context"

// RoutesAcquirer is implemented by state stores that acquire lanes of many routes at once: their transactions are most of the start of an
// instance with hundreds of routes.
type RoutesAcquirer interface {
	// AcquireRoutes is Acquire for several routes in one transaction, each of which is there once. Rows of a route of which it has
	// acquired some are bound to its table as by Bind, unless the route has rows of another one. The result has each route.
	AcquireRoutes(ctx context.Context, instance string, wanted []Wanted) (map[string]Acquired, error)
}

// Wanted is a route of which cursor rows are wanted, as in [StateStore].Acquire.
type Wanted struct {
	Route string
	Slots []int
	Most  int
	Table Table // that the route reads; without a name: nothing is bound
}

// Acquired is what AcquireRoutes found of a route.
type Acquired struct {
	Lanes   []LaneState
	Paused  bool // the route is: no lane was acquired
	Parking bool // ParkedGroups has groups of the route
}
