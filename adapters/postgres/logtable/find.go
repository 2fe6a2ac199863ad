package logtable

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
	"github.com/outriderhq/outrider/adapters/postgres/internal/reader"
	"github.com/outriderhq/outrider/adapters/postgres/internal/wire"
)

// findNewest is how many of the newest rows are read where no index finds ids.
const findNewest = 20_000

const (
	// logFindSQL looks by an index on the id. Parameters: id, limit.
	logFindSQL = `SELECT 0, false, {columns} FROM {table} o WHERE o.{id} = $1::text::{id_type} ORDER BY o.{position} DESC LIMIT $2`

	// logFindNewestSQL reads the newest rows. Parameters: id, limit, rows.
	logFindNewestSQL = `SELECT 0, false, {columns} FROM (SELECT * FROM {table} o ORDER BY o.{position} DESC LIMIT $3) o
WHERE o.{id} = $1::text::{id_type} LIMIT $2`
)

// Find implements [adapters.OperatorSource].
func (s *Source) Find(ctx context.Context, id string, most int) (adapters.Found, error) {
	if m := s.mapping; m.preset != nil && m.preset.Numbered {
		position, ours := strings.CutPrefix(id, m.table[len(m.table)-1]+":")
		if !ours {
			return adapters.Found{}, nil
		}
		id = position
	}
	found, err := s.find(ctx, id, most)
	if pg.NoValue(err) {
		return adapters.Found{}, nil // it cannot be an id of this table
	}
	return found, s.explain("look for an event", err)
}

func (s *Source) find(ctx context.Context, id string, most int) (found adapters.Found, err error) {
	var sql string
	args := []any{id, most}
	err = s.base.Count(ctx, func(tx pgx.Tx) error {
		t, err := s.mapping.sound(ctx, tx)
		if err != nil {
			return err
		}
		indexes, err := pg.TableIndexes(ctx, tx, t.table.Sanitize())
		if err != nil {
			return err
		}
		column := t.columns[roleID]
		sql = logFindSQL
		if !slices.ContainsFunc(indexes, func(i pg.TableIndex) bool {
			return i.Predicate == "" && len(i.Columns) > 0 && i.Columns[0] == column
		}) {
			sql, args = logFindNewestSQL, append(args, findNewest)
			found.Searched = fmt.Sprintf("no index finds ids, so only the newest %d rows were looked at", findNewest)
			found.Fix = fmt.Sprintf("CREATE INDEX CONCURRENTLY ON %s (%s)", t.table.Sanitize(), t.quoted(roleID))
		}
		return nil
	})
	if err != nil {
		return found, err
	}
	d := &wire.Decoder{Table: s.base.Table, MaxRow: s.mapping.maxRow}
	_, err = s.each(ctx, sql, args, func(_ int, position int64, v [][]byte) bool {
		f := adapters.FoundRow{Row: *s.mapping.row(d, s.mapping.head(d, v), v)}
		f.Row.Position, f.Row.Payload, f.Row.Err = position, nil, nil
		xid := uint64(0) // a row from before the column is never late
		if raw := v[resultOf(roleXID)]; raw != nil {
			xid = binary.BigEndian.Uint64(raw)
		}
		f.Settled = reader.SettledRow(position, xid)
		found.Rows = append(found.Rows, f)
		return true
	})
	return found, err
}
