package queue

import (
	"time"

	"github.com/outriderhq/outrider/adapters"
)

// Request is a [adapters.ClaimRequest] as claims look things up in it.
type Request struct {
	Slots  [adapters.Slots]bool // the claimer's lanes
	Terms  [adapters.Slots]uint64
	Except map[string]bool // groups
	Absent map[RowKey]bool // rows
}

// RowKey names a row.
type RowKey struct{ Table, Key string }

// NewRequest prepares a request.
func NewRequest(req adapters.ClaimRequest) Request {
	var r Request
	if len(req.Except) > 0 {
		r.Except = make(map[string]bool, len(req.Except))
	}
	if len(req.ExceptRows) > 0 {
		r.Absent = make(map[RowKey]bool, len(req.ExceptRows))
	}
	for i, slot := range req.Slots {
		if slot < 0 || slot >= adapters.Slots {
			continue
		}
		if r.Slots[slot] = true; i < len(req.Terms) {
			r.Terms[slot] = req.Terms[i]
		}
	}
	for _, group := range req.Except {
		r.Except[group] = true
	}
	for _, row := range req.ExceptRows {
		r.Absent[RowKey{row.Table, row.Key}] = true
	}
	return r
}

// Share gives every table an even share of what is left of a limit, and at most so many rows of it. Should there be
// room in the end, those tables get it whose share was not enough. got is how many rows the claim has.
func Share(tables, limit, batch int, got func() int, serve func(table, most int) error) error {
	taken := make([]int, tables)
	for pass := range 2 {
		for i := range tables {
			before := got()
			share := limit - before
			if remaining := tables - i; pass == 0 {
				share = (share + remaining - 1) / remaining
			}
			if err := serve(i, min(share, batch-taken[i])); err != nil {
				return err
			}
			taken[i] += got() - before
		}
		if tables == 1 {
			break
		}
	}
	return nil
}

// Looked is how much has been looked at of tables together.
func Looked(tables ...adapters.Coverage) (all adapters.Coverage) {
	for i, t := range tables {
		if i == 0 || t.Since.Before(all.Since) {
			all.Since, all.Next = t.Since, t.Next
		}
		all.Due = Sooner(all.Due, t.Due)
		all.Unwanted += t.Unwanted
	}
	return all
}

// Sooner is the earlier one of two times; zero is none.
func Sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
