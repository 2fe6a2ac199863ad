package staterow

import (
	"context"
	"strings"
	"time"

	"github.com/outriderhq/outrider/adapters"
)

// micros is a column of times as microseconds since 1970.
func (d Dialect) micros(column string) string {
	if d.Micros == "" {
		return column
	}
	return strings.ReplaceAll(d.Micros, "%", column)
}

// Audit reads audit records, the newest first; role is the column, or the expression,
// of the database role.
func Audit(ctx context.Context, d Dialect, tx Tx, role string, before int64, limit int) (out []adapters.AuditRecord, err error) {
	s := &Statement{dialect: d}
	s.add("SELECT id, " + d.micros("at") + ", by, " + role + ", action, CAST(filter AS text), changed FROM outrider_audit")
	if before > 0 {
		s.add(" WHERE id < %", before)
	}
	s.add(" ORDER BY id DESC LIMIT %", limit)
	err = tx.Each(ctx, s, func(scan func(...any) error) error {
		var r adapters.AuditRecord
		var at int64
		err := scan(&r.ID, &at, &r.By, &r.Role, &r.Action, &r.Filter, &r.Changed)
		r.At = time.UnixMicro(at)
		out = append(out, r)
		return err
	})
	return out, err
}

// CountFailures groups parked messages by what failed.
func CountFailures(ctx context.Context, d Dialect, tx Tx, route string, most int) (out []adapters.ParkedFailure, more bool, err error) {
	s := &Statement{dialect: d}
	s.add("SELECT route, status, event_type, last_error, count(*), " + d.micros("min(parked_at)") + ", " + d.micros("max(parked_at)") +
		" FROM (SELECT route, status, event_type, last_error, parked_at FROM outrider_parked WHERE last_error <> ''")
	if route != "" {
		s.add(" AND route = %", route)
	}
	s.add(" LIMIT %) AS f GROUP BY route, status, event_type, last_error ORDER BY count(*) DESC, route, event_type, last_error", most+1)
	looked := 0
	err = tx.Each(ctx, s, func(scan func(...any) error) error {
		var f adapters.ParkedFailure
		var status string
		var first, last int64
		err := scan(&f.Route, &status, &f.Type, &f.Error, &f.Count, &first, &last)
		f.Status, f.Type = adapters.ParkedStatus(status), Unpack(f.Type)
		f.First, f.Last = time.UnixMicro(first), time.UnixMicro(last)
		looked += f.Count
		out = append(out, f)
		return err
	})
	return out, looked > most, err
}
