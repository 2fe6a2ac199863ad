package router

import (
	"context"
	"fmt"

	"github.com/outriderhq/outrider/outbox"
)

// prepare gives new cursors their start and checks the others against the
// source's cluster.
func (r *route) prepare(ctx context.Context, states []outbox.LaneState) error {
	if r.Source == nil {
		r.origin.table = "none" // its rows are nobody's to keep
		return nil
	}
	cluster, err := r.Source.Identity(ctx)
	if err != nil {
		return &astray{err}
	}
	r.origin.cluster = cluster
	if n, ok := r.Source.(outbox.TableNamer); ok {
		if r.origin.table, err = n.TableName(ctx); err != nil {
			return &astray{err}
		}
	}
	var first *outbox.Cursor
	for i := range states {
		st := &states[i]
		if st.New {
			if first == nil {
				c, err := r.Source.Start(ctx, r.Start)
				if err != nil {
					return &astray{err}
				}
				first = &c
			}
			st.Cursor = *first
			continue
		}
		if st.Cluster != cluster {
			return &stopped{fmt.Errorf("route %q: its cursor belongs to database cluster %q, but the source is in %q: "+
				"the table was restored or moved, and the cursor's snapshot means nothing there. Place it anew with: %s",
				r.Name, st.Cluster, cluster, r.placeAnew())}
		}
		if err := r.Source.Validate(ctx, st.Cursor); err != nil {
			return &stopped{fmt.Errorf("route %q: %w (%s)", r.Name, err, r.placeAnew())}
		}
	}
	return nil
}

// placeAnew is the command for a route whose cursor means nothing any more.
func (r *route) placeAnew() string {
	if _, ok := r.Source.(outbox.Rebaser); ok {
		return "outrider rebase " + r.Name
	}
	return "outrider seek " + r.Name + " --to ... (before the first message that was not delivered)"
}
