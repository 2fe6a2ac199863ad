package admin

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
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
	ByStatus    map[string]int `json:"by_status"`
	First       time.Time      `json:"first" doc:"When the first of them was parked."`
	Last        time.Time      `json:"last" doc:"When the last of them was parked."`
}

// failuresMost is how many parked messages are looked at for failures.
const failuresMost = 100_000

// Failures groups the parked messages of a route (empty: of all) by what failed, the most
// frequent first. It looks at 100,000 messages of each state store at most; more reports
// that there are others.
func (op *Operator) Failures(ctx context.Context, route string) (out []Failure, more bool, err error) {
	index := map[string]int{}
	for _, s := range op.stores {
		counter, ok := s.(adapters.FailureCounter)
		if !ok {
			return nil, false, fmt.Errorf("a state store of type %T cannot group failures", s)
		}
		found, others, err := counter.CountFailures(ctx, route, failuresMost)
		if err != nil {
			return nil, false, err
		}
		more = more || others
		for _, f := range found {
			address := ShownAddress(addressIn.FindString(f.Error))
			key := fingerprint(f.Route, address, f.Type, f.Error)
			i, known := index[key]
			if !known {
				i, index[key] = len(out), len(out)
				out = append(out, Failure{Fingerprint: key, Route: f.Route, Address: address, Type: f.Type, Error: f.Error,
					ByStatus: map[string]int{}, First: f.First, Last: f.Last})
			}
			g := &out[i]
			g.Count += f.Count
			g.ByStatus[string(f.Status)] += f.Count
			if f.First.Before(g.First) {
				g.First = f.First
			}
			if f.Last.After(g.Last) {
				g.Last = f.Last
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Failure) int { return cmp.Compare(b.Count, a.Count) })
	return out, more, nil
}

var (
	addressIn = regexp.MustCompile(`https?://[^\s"'<>,;]*[^\s"'<>,;:.)]`)
	varying   = regexp.MustCompile(`"[^"]*"|'[^']*'|\b[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}\b|\b[0-9A-Za-z]*[0-9][0-9A-Za-z]*\b`)
)

// fingerprint names a group of failures.
func fingerprint(route, address, typ, text string) string {
	text = varying.ReplaceAllString(addressIn.ReplaceAllString(text, "@"), "#")
	sum := sha256.Sum256([]byte(route + "\x00" + address + "\x00" + typ + "\x00" + text))
	return hex.EncodeToString(sum[:8])
}

// Audit returns audit records of the state stores, each store's newest first: of each, at
// most limit with an id below before; 0: of all.
func (op *Operator) Audit(ctx context.Context, before int64, limit int) ([]adapters.AuditRecord, error) {
	var out []adapters.AuditRecord
	for _, s := range op.stores {
		reader, ok := s.(adapters.AuditReader)
		if !ok {
			return nil, fmt.Errorf("a state store of type %T shows no audit records", s)
		}
		records, err := reader.ReadAudit(ctx, before, limit)
		if err != nil {
			return nil, err
		}
		out = append(out, records...)
	}
	slices.SortStableFunc(out, func(a, b adapters.AuditRecord) int { return b.At.Compare(a.At) })
	return out, nil
}
