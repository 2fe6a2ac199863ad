package staterow

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/outriderhq/outrider/outbox"
)

// ListLimit is how many parked messages a list without a limit returns.
const ListLimit = 100

// CheckFilter refuses filters that cannot mean anything.
func CheckFilter(f outbox.ParkedFilter) error {
	switch f.Status {
	case "", outbox.ParkedRetrying, outbox.ParkedWaiting, outbox.ParkedHeld, outbox.ParkedDead:
	default:
		return fmt.Errorf("filter: status %q is none of retrying, waiting, held, dead", f.Status)
	}
	if f.Limit < 0 {
		return fmt.Errorf("filter: limit %d is negative; use 0 for the default", f.Limit)
	}
	return nil
}

// CheckCommand is [CheckFilter] for commands that change what matches: a
// filter that selects everything is a slip of the hand.
func CheckCommand(f outbox.ParkedFilter) error {
	if f.Route == "" && f.Group == "" && f.ID == "" && f.Status == "" {
		return errors.New("filter: a command that changes parked messages needs a route, group, id or status")
	}
	return CheckFilter(f)
}

// Selector is a filter with its texts as they are stored.
type Selector struct {
	Route, Group, ID string

	// Statuses are those that match.
	Statuses []string
	Limit    int // 0: all
}

// ListSelector returns what a list shows.
func ListSelector(f outbox.ParkedFilter) Selector {
	s := selector(f, outbox.ParkedRetrying, outbox.ParkedWaiting, outbox.ParkedHeld, outbox.ParkedDead)
	s.Limit = cmp.Or(s.Limit, ListLimit)
	return s
}

// RedriveSelector returns what a redrive changes. Waiting messages never
// match: they go when the head of their group does.
func RedriveSelector(f outbox.ParkedFilter) Selector {
	return selector(f, outbox.ParkedRetrying, outbox.ParkedHeld, outbox.ParkedDead)
}

// DiscardSelector returns what a discard deletes. Waiting messages have failed
// nothing, so they go only when the filter names their status.
func DiscardSelector(f outbox.ParkedFilter) Selector {
	if f.Status == outbox.ParkedWaiting {
		return selector(f, outbox.ParkedWaiting)
	}
	return RedriveSelector(f)
}

// selector narrows the statuses that a command may touch by the filter's own.
func selector(f outbox.ParkedFilter, allowed ...outbox.ParkedStatus) Selector {
	s := Selector{Route: f.Route, Group: packed(f.Group), ID: packed(f.ID), Limit: f.Limit, Statuses: []string{}}
	for _, status := range allowed {
		if f.Status == "" || f.Status == status {
			s.Statuses = append(s.Statuses, string(status))
		}
	}
	return s
}

func packed(s string) string {
	if s == "" {
		return ""
	}
	return Pack(s)
}

// FilterJSON returns the filter as audit records keep it: only what was set.
func FilterJSON(f outbox.ParkedFilter) string {
	fields := map[string]any{}
	for key, value := range map[string]string{
		"route": f.Route, "group": Clean(f.Group), "id": Clean(f.ID), "status": string(f.Status),
	} {
		if value != "" {
			fields[key] = value
		}
	}
	if f.Limit > 0 {
		fields["limit"] = f.Limit
	}
	// Strings and an integer cannot fail to encode.
	b, _ := json.Marshal(fields)
	return string(b)
}
