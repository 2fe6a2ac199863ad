package sqlite

import (
	"context"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/staterow"
)

var (
	_ adapters.AuditReader    = (*State)(nil)
	_ adapters.FailureCounter = (*State)(nil)
)

// ReadAudit implements [adapters.AuditReader].
func (s *State) ReadAudit(ctx context.Context, before int64, limit int) ([]adapters.AuditRecord, error) {
	records, err := staterow.Audit(ctx, parkedDialect, parkedTx{s.db}, "''", before, limit)
	if err != nil {
		return nil, s.wrap("read the audit records", err)
	}
	return records, nil
}

// CountFailures implements [adapters.FailureCounter].
func (s *State) CountFailures(ctx context.Context, route string, most int) ([]adapters.ParkedFailure, bool, error) {
	failures, more, err := staterow.CountFailures(ctx, parkedDialect, parkedTx{s.db}, route, most)
	if err != nil {
		return nil, false, s.wrap("count the errors of parked messages", err)
	}
	return failures, more, nil
}
