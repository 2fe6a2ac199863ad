package state

import (
	"encoding/json"
	"fmt"

	"github.com/outriderhq/outrider/adapters"
)

// EncodeRoutes returns what an instance announces as a JSON array.
func EncodeRoutes(routes []adapters.RunningRoute) string {
	clean := make([]adapters.RunningRoute, len(routes))
	for i, r := range routes {
		clean[i] = adapters.RunningRoute{Route: Pack(r.Route), Unit: Pack(r.Unit), Waits: Clean(r.Waits)}
	}
	// Structs of strings cannot fail to encode.
	b, _ := json.Marshal(clean)
	return string(b)
}

// DecodeRoutes is the inverse of [EncodeRoutes].
func DecodeRoutes(text string) ([]adapters.RunningRoute, error) {
	var routes []adapters.RunningRoute
	if err := json.Unmarshal([]byte(text), &routes); err != nil {
		return nil, fmt.Errorf("the routes of an instance are not a JSON array of objects: %w", err)
	}
	for i, r := range routes {
		routes[i].Route, routes[i].Unit = Unpack(r.Route), Unpack(r.Unit)
	}
	return routes, nil
}

// announced is what instances have said that they run, by instance, as it was last read: it is long where there are hundreds of routes, and changes
// when instances come and go.
type announced map[string]announcement

type announcement struct {
	text   string
	routes []adapters.RunningRoute
}

// of returns what an instance has said; a is nil before the first read.
func (a *announced) of(instance string) announcement {
	if a == nil {
		return announcement{}
	}
	return (*a)[instance]
}
