package logtable

import (
	"context"
	"encoding/binary"
	"math"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/reader"
	"github.com/outriderhq/outrider/adapters/postgres/internal/wire"
)

// logUnsettledSQL reads a range of rows by position. Parameters: the range, limit.
const logUnsettledSQL = `SELECT 0, false, {columns} FROM {table} o WHERE o.{position} > $1 AND o.{position} <= $2 ORDER BY o.{position} LIMIT $3`

// unsettledRows bounds the rows that are read.
const unsettledRows = 2000

// Unsettled implements [adapters.OperatorSource]. The table has no slots, so rows are read from the lowest position
// on, for all lanes together. Late rows below a cursor are not looked for: the index that would find them is the application's.
func (s *Source) Unsettled(ctx context.Context, lanes []adapters.LaneStatus, after []int64, mark adapters.Cursor, most int) ([][]adapters.FoundRow, error) {
	out, lowest := make([][]adapters.FoundRow, len(lanes)), int64(math.MaxInt64)
	for i := range lanes {
		lowest = min(lowest, after[i])
	}
	marked, err := reader.CoverOf(&mark)
	if err != nil {
		return nil, s.explain("look for rows that are not settled", err)
	}
	d := &wire.Decoder{Table: s.base.Table, MaxRow: s.mapping.maxRow}
	_, err = s.each(ctx, logUnsettledSQL, []any{lowest, mark.Position, unsettledRows}, func(slot int, position int64, v [][]byte) bool {
		xid := uint64(0)
		if raw := v[resultOf(roleXID)]; raw != nil {
			xid = binary.BigEndian.Uint64(raw)
		}
		if !marked.Has(position, xid) {
			return true
		}
		settled := reader.SettledRow(position, xid)
		for i := range lanes {
			if lanes[i].Slot != slot || position <= after[i] || len(out[i]) >= most || settled(lanes[i].Cursor, lanes[i].Beyond) {
				continue
			}
			f := adapters.FoundRow{Row: *s.mapping.row(d, s.mapping.head(d, v), v), Settled: settled}
			f.Row.Position, f.Row.Payload, f.Row.Err = position, nil, nil
			out[i] = append(out[i], f)
		}
		return true
	})
	return out, s.explain("look for rows that are not settled", err)
}
