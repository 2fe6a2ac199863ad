package operate

import (
	"fmt"
	"time"

	"github.com/outriderhq/outrider/adapters"
)

// OperationView is an operation as the command line tool and the API show it: a change of many messages or
// routes, and how far it is.
type OperationView struct {
	ID    string `json:"id" doc:"Ascends with the time of the order."`
	Kind  string `json:"kind" enum:"redrive,skip,purge,seek"`
	State string `json:"state" enum:"planned,running,stopped,done,failed" doc:"planned: a relay takes it within two seconds; stopped and failed ones may be resumed."`

	Filter *OperationSubject `json:"filter,omitempty" doc:"Of a redrive, skip or purge: which messages; of those, the ones that were parked when it was ordered."`
	Routes []string          `json:"routes,omitempty" doc:"Of a seek, in its order."`
	To     string            `json:"to,omitempty" doc:"Of a seek: where to."`

	Rate      float64  `json:"rate,omitempty" doc:"Messages or routes a second at most; absent: no limit."`
	Total     int      `json:"total" doc:"Messages or routes counted when it was ordered."`
	Done      int      `json:"done" doc:"Changed so far."`
	Failed    int      `json:"failed" doc:"Could not be changed."`
	Remaining int      `json:"remaining" doc:"0 when it is done: what is missing in done was delivered, or changed by others, meanwhile."`
	PerSecond *float64 `json:"per_second,omitempty" doc:"Absent unless it runs."`
	Error     string   `json:"error,omitempty" doc:"Why it failed, or the first thing that did."`

	By        string     `json:"by" doc:"Author."`
	Worker    string     `json:"worker,omitempty" doc:"Instance, or command, that runs it."`
	CreatedAt time.Time  `json:"created_at"`
	StartedAt *time.Time `json:"started_at,omitempty"`
	UpdatedAt time.Time  `json:"updated_at" doc:"Of the last step."`
	EndedAt   *time.Time `json:"ended_at,omitempty" doc:"When it ended, or was stopped. It is kept for 30 days from then."`
}

// OperationSubject is which messages an operation is about.
type OperationSubject struct {
	Route   string    `json:"route,omitempty"`
	Group   string    `json:"group,omitempty"`
	ID      string    `json:"id,omitempty" doc:"Event id."`
	Type    string    `json:"type,omitempty" doc:"Event type."`
	Status  string    `json:"status,omitempty"`
	Error   string    `json:"error,omitempty" doc:"Part of the last error, in any case."`
	Failure string    `json:"failure,omitempty" doc:"fingerprint of a failure."`
	Before  time.Time `json:"before,omitzero" doc:"Parked before this time."`
	All     bool      `json:"all,omitempty"`
	Limit   int       `json:"limit,omitempty" doc:"Most messages that it changes; absent: all."`
}

// ViewOperation shows an operation.
func ViewOperation(o *adapters.Operation) OperationView {
	v := OperationView{ID: o.ID, Kind: string(o.Kind), State: string(o.State), Routes: o.Routes, To: o.To, Rate: o.Rate, Total: o.Total, Done: o.Done,
		Failed: o.Failed, Remaining: o.Remaining(), Error: o.Error, By: o.By, Worker: o.Worker, CreatedAt: o.CreatedAt, UpdatedAt: o.UpdatedAt,
		StartedAt: instantOf(o.StartedAt), EndedAt: instantOf(o.EndedAt)}
	if o.Kind != adapters.OperationSeek {
		f := o.Filter
		v.Filter = &OperationSubject{Route: f.Route, Group: f.Group, ID: f.ID, Type: f.Type, Status: string(f.Status), Error: f.Error,
			Failure: failureName(f.Failure), Before: f.Before, All: o.All, Limit: f.Limit}
	}
	if o.State == adapters.OperationRunning {
		pace := o.PerSecond()
		v.PerSecond = &pace
	}
	return v
}

// failureName is the fingerprint of a failure; empty: none.
func failureName(name int64) string {
	if name == 0 {
		return ""
	}
	return fmt.Sprintf("%016x", name)
}

// instantOf is a time that may be zero: then nil.
func instantOf(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
