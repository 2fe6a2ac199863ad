package status

import (
	"time"

	"github.com/outriderhq/outrider/adapters"
)

// Route is the state of a route in GET /routes: what this process knows, since it
// began.
type Route struct {
	Route         string    `json:"route"`
	Lanes         int       `json:"lanes"`
	Delivered     int64     `json:"delivered"`
	InFlight      int       `json:"in_flight"`
	OldestSeconds float64   `json:"oldest_seconds"` // age of the oldest message read and not delivered
	Paused        bool      `json:"paused,omitempty"`
	Stopped       string    `json:"stopped,omitempty"`      // why it cannot run
	SourceError   string    `json:"source_error,omitempty"` // why its source could not be read at the latest attempt
	StateError    string    `json:"state_error,omitempty"`  // why its progress could not be written at the latest attempt
	Down          []Address `json:"down,omitempty"`
}

// Address is an address that is not used now, its secrets masked.
type Address struct {
	Address string    `json:"address"`
	Gone    bool      `json:"gone,omitempty"` // until an operator resumes it
	Since   time.Time `json:"since"`
	Cause   string    `json:"cause"`
	Waiting int       `json:"waiting"` // messages that failed there and wait

	NextProbe *time.Time `json:"next_probe_at,omitempty"` // absent while one is under way
}

// RoutesOf returns the state of routes that only their process knows.
func RoutesOf(stats []adapters.RouteStats) []Route {
	out := []Route{}
	for _, s := range stats {
		r := Route{Route: s.Route, Lanes: s.Lanes, Delivered: s.Delivered, InFlight: s.InFlight,
			OldestSeconds: s.Oldest.Seconds(), Paused: s.Paused != nil, Stopped: s.Stopped, SourceError: s.SourceError, StateError: s.StateError}
		for _, a := range s.Down {
			down := Address{Address: a.Address, Gone: a.Gone, Since: a.Since, Cause: a.Cause, Waiting: a.Held}
			if !a.NextProbe.IsZero() {
				down.NextProbe = &a.NextProbe
			}
			r.Down = append(r.Down, down)
		}
		out = append(out, r)
	}
	return out
}
