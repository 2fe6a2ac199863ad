package queuerow

import (
	"context"
	"database/sql"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/layout"
)

// DeadPageBytes bounds the payloads of a page of dead rows.
const DeadPageBytes = 4 << 20

// DeadPage reads pages of dead rows until one has a row that was wanted: when a row died is compared here, because columns keep
// times as their writers like. next reads the rows behind a place, and returns that of the last one; zero: there is none.
func DeadPage(f adapters.DeadFilter, next func(adapters.DeadFilter) (found []adapters.DeadRow, last adapters.DeadKey, err error)) (page []adapters.DeadRow, err error) {
	for {
		found, last, err := next(f)
		if err != nil || last == (adapters.DeadKey{}) {
			return nil, err
		}
		for i := range found {
			if f.Before.IsZero() || found[i].Died.Before(f.Before) {
				page = append(page, found[i])
			}
		}
		if len(page) > 0 {
			return page, nil
		}
		f.After = last
	}
}

// DeadCounts counts the dead rows of a table by type, aggregate type and tenant. More reports that there are more than most. The
// query takes a limit, and returns these three and how many there are.
func DeadCounts(ctx context.Context, db *sql.DB, query string, of *layout.Queue, kind string, most int) (counts []adapters.DeadCount, more bool, err error) {
	rows, err := db.QueryContext(ctx, query, most+1)
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = rows.Close() }() // Err returns the error
	for seen := 0; rows.Next(); {
		var typ, aggregate, tenant sql.NullString
		n := adapters.DeadCount{}
		if err := rows.Scan(&typ, &aggregate, &tenant, &n.Rows); err != nil {
			return nil, false, err
		}
		n.Row = adapters.Row{Kind: kind, Type: typ.String, AggregateType: aggregate.String, Tenant: tenant.String}
		if of.KindInType {
			n.Row.Kind = n.Row.Type
		}
		if seen += n.Rows; seen > most {
			more = true
			n.Rows -= seen - most
		}
		counts = append(counts, n)
	}
	return counts, more, rows.Err()
}
