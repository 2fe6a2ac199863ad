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
	s.add("SELECT id, " + d.micros("at") + ", " + d.by() + ", " + role + ", action, " + d.textual("filter") + ", changed FROM outrider_audit")
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
