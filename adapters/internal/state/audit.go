package state

import (
	"context"
	"fmt"
	"time"

	"github.com/outriderhq/outrider/adapters"
)

// audit writes down who did what; filter is a JSON object.
func (db *Database) audit(ctx context.Context, tx Tx, by, action, filter string, changed int) error {
	at, now := "", ""
	if db.AuditTime {
		at, now = "at, ", "{now}, "
	}
	_, err := db.exec(ctx, tx, "INSERT INTO outrider_audit ("+at+"{by}, action, filter, changed) VALUES ("+now+"?, ?, ?, ?)", Clean(by), action, filter, changed)
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	return nil
}

// Audit implements [adapters.OperatorStore].
func (o *Operators) Audit(ctx context.Context, by string, action adapters.ParkedAction, f adapters.ParkedFilter, table string, changed int) error {
	return o.db.Wrap("write an audit record", o.db.audit(ctx, o.db.Pool, by, string(action), TableFilterJSON(f, table), changed))
}

// WriteAudit implements [adapters.OperatorStore].
func (o *Operators) WriteAudit(ctx context.Context, by, action string, changed int, about ...string) error {
	return o.db.Wrap("write an audit record", o.db.audit(ctx, o.db.Pool, by, action, FieldsJSON(about...), changed))
}

// ReadAudit implements [adapters.OperatorStore].
func (o *Operators) ReadAudit(ctx context.Context, before int64, limit int) (out []adapters.AuditRecord, err error) {
	s := o.db.query("SELECT id, " + o.db.micros("at") + ", {by}, {role}, action, CAST(filter AS {text}), changed FROM outrider_audit")
	if before > 0 {
		s.And(" WHERE id < ?", before)
	}
	err = o.db.Pool.Each(ctx, s.And(" ORDER BY id DESC LIMIT ?", limit), func(scan func(...any) error) error {
		var r adapters.AuditRecord
		var at int64
		err := scan(&r.ID, &at, &r.By, &r.Role, &r.Action, &r.Filter, &r.Changed)
		r.At = time.UnixMicro(at)
		out = append(out, r)
		return err
	})
	return out, o.db.Wrap("read the audit records", err)
}
