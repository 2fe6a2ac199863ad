package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/outriderhq/outrider/adapters"
)

// CheckFilter refuses filters that cannot mean anything.
func CheckFilter(f adapters.ParkedFilter) error {
	switch f.Status {
	case "", adapters.ParkedRetrying, adapters.ParkedWaiting, adapters.ParkedHeld, adapters.ParkedDead:
	default:
		return fmt.Errorf("filter: status %q is none of retrying, waiting, held, dead", f.Status)
	}
	if f.Limit < 0 {
		return fmt.Errorf("filter: limit %d is negative; use 0 for the default", f.Limit)
	}
	return nil
}

// CheckCommand is [CheckFilter] for commands. A filter that selects everything
// is a slip of the hand unless it is said to be meant.
func CheckCommand(c adapters.ParkedCommand) error {
	switch c.Action {
	case adapters.ParkedRedrive, adapters.ParkedSkip, adapters.ParkedPurge:
	default:
		return fmt.Errorf("action %q is none of redrive, skip, purge", c.Action)
	}
	if c.Filter.IsZero() && !c.All {
		return errors.New("filter: a command that changes parked messages needs a condition, or All")
	}
	return CheckFilter(c.Filter)
}

// FilterJSON returns the filter as audit records keep it: only what was set.
func FilterJSON(f adapters.ParkedFilter) string {
	before, limit, after, failure := "", "", "", ""
	if f.Failure != 0 {
		failure = fmt.Sprintf("%016x", f.Failure)
	}
	if !f.Before.IsZero() {
		before = f.Before.UTC().Format(time.RFC3339Nano)
	}
	if f.Limit > 0 {
		limit = strconv.Itoa(f.Limit)
	}
	if f.After != (adapters.ParkedKey{}) {
		after = fmt.Sprintf("%s/%02d/%d", f.After.Route, f.After.Slot, f.After.Seq)
	}
	return FieldsJSON("route", f.Route, "group", f.Group, "id", f.ID, "status", string(f.Status), "type", f.Type,
		"error", f.Error, "failure", failure, "before", before, "limit", limit, "after", after)
}

// TableFilterJSON is [FilterJSON] for a change in a queue's table.
func TableFilterJSON(f adapters.ParkedFilter, table string) string {
	return withFields(FilterJSON(f), "table", table)
}

// withFields adds names and values, alternating, to an object of strings.
func withFields(object string, fields ...string) string {
	all := map[string]string{}
	_ = json.Unmarshal([]byte(object), &all) // it was made of strings
	for i := 0; i+1 < len(fields); i += 2 {
		all[fields[i]] = Clean(fields[i+1])
	}
	b, _ := json.Marshal(all) // strings cannot fail to encode
	return string(b)
}

// FieldsJSON returns names and values, alternating, as audit records keep them:
// only values that are not empty.
func FieldsJSON(fields ...string) string {
	set := map[string]string{}
	for i := 0; i+1 < len(fields); i += 2 {
		if fields[i+1] != "" {
			set[fields[i]] = Clean(fields[i+1])
		}
	}
	b, _ := json.Marshal(set) // strings cannot fail to encode
	return string(b)
}
