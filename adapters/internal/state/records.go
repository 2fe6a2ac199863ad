package state

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

// known is the same; 0 for NULL.
func (d Dialect) known(column string) string { return "coalesce(" + d.micros(column) + ", 0)" }

// Audit reads audit records, the newest first.
func Audit(ctx context.Context, d Dialect, tx Tx, before int64, limit int) (out []adapters.AuditRecord, err error) {
	s := &Statement{dialect: d}
	s.add("SELECT id, " + d.micros("at") + ", " + d.by() + ", " + d.Role + ", action, " + d.textual("filter") + ", changed FROM outrider_audit")
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
