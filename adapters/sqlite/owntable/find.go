package owntable

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/sqlite/internal/lite"
)

// findNewest is how many of the newest rows are searched where no index finds ids.
const findNewest = 20_000

// foundColumns are the columns that a search returns.
const foundColumns = `position, id, type, coalesce(message_group, ''), coalesce(aggregate_type, ''), coalesce(aggregate_id, ''),
    coalesce(tenant_id, ''), coalesce(tags, ''), cast(coalesce(unixepoch(created_at, 'subsec') * 1000, 0) AS INTEGER)`

// Find implements [adapters.OperatorSource].
func (s *Source) Find(ctx context.Context, id string, most int) (adapters.Found, error) {
	found, err := s.find(ctx, id, most)
	if err != nil {
		return found, s.wrap("look for an event", err)
	}
	return found, nil
}

func (s *Source) find(ctx context.Context, id string, most int) (found adapters.Found, err error) {
	column := "id"
	if s.shape.columns != nil {
		column = s.shape.columns.ID
	}
	var indexed bool
	if err := s.db.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM pragma_index_list(?) l JOIN pragma_index_info(l.name) i
WHERE NOT l.partial AND i.seqno = 0 AND lower(i.name) = lower(?))`, s.table, column).Scan(&indexed); err != nil {
		return found, err
	}
	from, args := s.shape.from, []any{}
	if !indexed {
		from = "(SELECT * FROM " + from + " ORDER BY position DESC LIMIT ?)"
		args = append(args, findNewest)
		found.Searched = fmt.Sprintf("no index finds ids, so only the newest %d rows were looked at", findNewest)
		found.Fix = "CREATE INDEX " + lite.Quote(s.table+"_id_idx") + " ON " + lite.Quote(s.table) + " (" + lite.Quote(column) + ")"
	}
	rows, err := s.db.QueryContext(ctx, `SELECT `+foundColumns+` FROM `+from+` WHERE id = ? ORDER BY position DESC LIMIT ?`, append(args, id, most)...) //nolint:gosec // G202: names from the table's description
	if err != nil {
		return found, err
	}
	defer func() { _ = rows.Close() }() // Err returns the error
	for rows.Next() {
		f, err := scanFound(rows)
		if err != nil {
			return found, err
		}
		found.Rows = append(found.Rows, f)
	}
	return found, rows.Err()
}

func scanFound(rows *sql.Rows) (f adapters.FoundRow, err error) {
	r := &f.Row
	var tags string
	var created int64
	if err := rows.Scan(&r.Position, &r.ID, &r.Type, &r.Group, &r.AggregateType, &r.AggregateID, &r.Tenant, &tags, &created); err != nil {
		return f, err
	}
	r.Slot = adapters.SlotOf(r.Group, r.ID)
	if created > 0 {
		r.CreatedAt = time.UnixMilli(created)
	}
	_ = json.NewDecoder(strings.NewReader(tags)).Decode(&r.Tags) // what is no object of strings has no tags that match
	f.Settled = func(c adapters.Cursor, beyond []int64) bool {
		return r.Position <= c.Position || slices.Contains(beyond, r.Position)
	}
	return f, nil
}
