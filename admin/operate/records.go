package operate

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/outriderhq/outrider/adapters"
)

// Failure is a group of parked messages that failed in the same way: errors that differ
// in numbers, ids and quoted texts only are the same one.
type Failure struct {
	Fingerprint string         `json:"fingerprint" doc:"Names the group: of the route, the address, the type and the error without what varies in it."`
	Route       string         `json:"route"`
	Address     string         `json:"address,omitempty" doc:"URL that the error names."`
	Type        string         `json:"type" doc:"Event type."`
	Error       string         `json:"error" doc:"One of the errors."`
	Count       int            `json:"count" doc:"Parked messages."`
	More        bool           `json:"count_more,omitempty" doc:"There are more than that; by_status is of those that were counted."`
	ByStatus    map[string]int `json:"by_status"`
	First       time.Time      `json:"first" doc:"When the first of them was parked."`
	Last        time.Time      `json:"last" doc:"When the last of them was parked."`
}

// failuresMost is how many groups are returned of each state store.
const failuresMost = 100

// Failures groups the parked messages of a route (empty: of all) by what failed, the most
// frequent first. It returns the 100 largest groups of each state store, as far as 100 messages of each show which these are,
// and counts 200,000 messages in all, at least 2,000 of each group; more reports that there are other groups.
func (op *Operator) Failures(ctx context.Context, route string) (out []Failure, more bool, err error) {
	for _, s := range op.stores {
		found, others, err := s.CountFailures(ctx, route, failuresMost)
		if err != nil {
			return nil, false, err
		}
		more = more || others
		for _, f := range found {
			g := Failure{Fingerprint: fmt.Sprintf("%016x", f.Name), Route: f.Route, Address: ShownAddress(addressIn.FindString(f.Error)), Type: f.Type, Error: f.Error,
				Count: f.Count, More: f.More, ByStatus: map[string]int{}, First: f.First, Last: f.Last}
			for status, n := range f.ByStatus {
				g.ByStatus[string(status)] = n
			}
			out = append(out, g)
		}
	}
	slices.SortStableFunc(out, func(a, b Failure) int { return cmp.Compare(b.Count, a.Count) })
	return out, more, nil
}

// ParseFailure reads the fingerprint of a [Failure].
func ParseFailure(text string) (int64, error) {
	name, err := strconv.ParseInt(text, 16, 64)
	if err != nil || len(text) != 16 || name <= 0 {
		return 0, fmt.Errorf("failure %q is no fingerprint of a failure", text)
	}
	return name, nil
}

var addressIn = regexp.MustCompile(`https?://[^\s"'<>,;]*[^\s"'<>,;:.)]`)

// Audit returns audit records of the state stores, the newest first, at most limit. before is empty, or the next of the page
// before; next is empty behind the last page.
func (op *Operator) Audit(ctx context.Context, before string, limit int) (out []adapters.AuditRecord, next string, err error) {
	ids, err := op.auditIDs(before)
	if err != nil {
		return nil, "", err
	}
	pages := make([][]adapters.AuditRecord, len(op.stores))
	for i, s := range op.stores {
		if before != "" && ids[i] == 0 {
			continue // the page before had its last one
		}
		if pages[i], err = s.ReadAudit(ctx, ids[i], limit+1); err != nil {
			return nil, "", err
		}
	}
	for len(out) < limit {
		newest := -1
		for i, page := range pages {
			if len(page) > 0 && (newest < 0 || page[0].At.After(pages[newest][0].At)) {
				newest = i
			}
		}
		if newest < 0 {
			return out, "", nil
		}
		out = append(out, pages[newest][0])
		pages[newest] = pages[newest][1:]
	}
	return out, auditNext(pages), nil
}

// auditIDs reads where a page begins: for each store the id below which its records are; 0: there are none.
func (op *Operator) auditIDs(before string) ([]int64, error) {
	ids := make([]int64, len(op.stores))
	if before == "" {
		return ids, nil
	}
	parts := strings.Split(before, ".")
	if len(parts) != len(ids) {
		return nil, fmt.Errorf("before %q: %w", before, ErrPageToken)
	}
	for i, part := range parts {
		id, err := strconv.ParseInt(part, 10, 64)
		if err != nil || id < 0 {
			return nil, fmt.Errorf("before %q: %w", before, ErrPageToken)
		}
		ids[i] = id
	}
	return ids, nil
}

// auditNext is where the page behind one begins, of which these records are left.
func auditNext(left [][]adapters.AuditRecord) string {
	ids, more := make([]string, len(left)), false
	for i, page := range left {
		ids[i] = "0"
		if len(page) > 0 {
			ids[i], more = strconv.FormatInt(page[0].ID+1, 10), true
		}
	}
	if !more {
		return ""
	}
	return strings.Join(ids, ".")
}
