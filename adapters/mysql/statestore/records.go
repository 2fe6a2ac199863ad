package statestore

import (
	"context"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/staterow"
)

var (
	_ adapters.AuditReader    = (*Store)(nil)
	_ adapters.FailureCounter = (*Store)(nil)
)

// ReadAudit implements [adapters.AuditReader].
func (s *Store) ReadAudit(ctx context.Context, before int64, limit int) ([]adapters.AuditRecord, error) {
	records, err := staterow.Audit(ctx, parkedDialect, parkedTx{s.db}, "role", before, limit)
	return records, stateError("read the audit records", err)
}

// CountFailures implements [adapters.FailureCounter].
func (s *Store) CountFailures(ctx context.Context, route string, most int) ([]adapters.ParkedFailure, bool, error) {
	failures, more, err := staterow.CountFailures(ctx, parkedDialect, parkedTx{s.db}, route, most)
	return failures, more, stateError("count the errors of parked messages", err)
}
