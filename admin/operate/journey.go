package operate

import (
	"slices"
	"time"

	"github.com/outriderhq/outrider/adapters"
)

// Journey is where an event is: a place for each route that concerns it.
type Journey struct {
	ID       string       `json:"id" doc:"Event id."`
	Instance string       `json:"instance,omitempty" doc:"Instance that answered: what is in flight is known of it alone."`
	Places   []EventPlace `json:"places" nullable:"false" doc:"Empty: the event was not found, within the limits in the notes."`
	Notes    []string     `json:"notes" nullable:"false" doc:"Parts that could not be searched, or not completely, and how to fix that."`
}

// Merge adds what a relay knows of the event: its view of a place is later, and knows what is in flight.
func (j *Journey) Merge(live *Journey) {
	j.Instance = live.Instance
	for _, p := range live.Places {
		i := slices.IndexFunc(j.Places, func(own EventPlace) bool {
			return own.Route == p.Route && own.Source == p.Source && own.Table == p.Table && own.Position == p.Position && own.Group == p.Group
		})
		if i >= 0 {
			j.Places[i] = p
		} else {
			j.Places = append(j.Places, p)
		}
	}
}

// EventPlace is where an event is on one route.
type EventPlace struct {
	Where  EventWhere `json:"where" enum:"unread,in_flight,waiting,parked,dead,settled,skipped,unwanted,foreign"`
	Text   string     `json:"text" doc:"The place in one sentence."`
	Action string     `json:"action,omitempty" doc:"What to do; absent when there is nothing to do."`

	Route    string     `json:"route,omitempty" doc:"Absent: no route matches the row."`
	Source   string     `json:"source,omitempty"`
	Table    string     `json:"table,omitempty" doc:"Of a queue: the table that has the row."`
	Slot     *int       `json:"slot,omitempty"`
	Group    string     `json:"group,omitempty"`
	Type     string     `json:"type,omitempty"`
	Position int64      `json:"position,omitempty" doc:"Of the row in a log table."`
	Created  *time.Time `json:"created_at,omitempty"`

	Cursor     *int64 `json:"cursor,omitempty" doc:"Position up to which the route has settled its lane."`
	Ahead      *int   `json:"ahead,omitempty" doc:"Rows of the lane before this one that are not settled."`
	AheadMore  bool   `json:"ahead_more,omitempty" doc:"There are more than that."`
	Owner      string `json:"owner,omitempty" doc:"Instance that owns the lane."`
	OwnerAlive bool   `json:"owner_alive,omitempty"`

	Since    *time.Time `json:"since,omitempty" doc:"In flight: when it was read or claimed."`
	Attempt  int        `json:"attempt,omitempty" doc:"The one under way, or the next."`
	Attempts int        `json:"attempts,omitempty" doc:"Failed attempts that are written down."`
	Next     *time.Time `json:"next_attempt_at,omitempty"`
	Error    string     `json:"error,omitempty" doc:"Of the latest failed attempt."`

	After *time.Time `json:"settled_after,omitempty" doc:"Settled: it was not before this time."`
	By    *time.Time `json:"settled_by,omitempty" doc:"Settled: it was at this time, or before. Absent: no longer known."`

	Key    string                `json:"key,omitempty" doc:"Parked: route/slot/seq."`
	Status adapters.ParkedStatus `json:"status,omitempty" doc:"Parked: why."`
	Parked *time.Time            `json:"parked_at,omitempty"`
	Tries  []adapters.Try        `json:"tries,omitempty" doc:"Failed attempts that are remembered, the latest last."`
}

// EventWhere is the kind of a place.
type EventWhere string

// The places of an event.
const (
	EventUnread   EventWhere = "unread"    // in the table, and not settled; no instance that answered has it in flight
	EventInFlight EventWhere = "in_flight" // an instance has it
	EventWaiting  EventWhere = "waiting"   // in a queue's table, to be claimed
	EventParked   EventWhere = "parked"    // taken out of the stream: retried, waiting or held
	EventDead     EventWhere = "dead"      // given up; its group continues
	EventSettled  EventWhere = "settled"   // delivered, or skipped by a middleware: which is not kept
	EventSkipped  EventWhere = "skipped"   // a middleware skipped it, and the instance remembers
	EventUnwanted EventWhere = "unwanted"  // no route matches the row
	EventForeign  EventWhere = "foreign"   // its status is none that the layout knows
)
