package statestore

import (
	"context"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/staterow"
)

var _ adapters.Auditor = (*Store)(nil)

// Audit implements [adapters.Auditor].
func (s *Store) Audit(ctx context.Context, by string, action adapters.ParkedAction, f adapters.ParkedFilter, table string, changed int) error {
	_, err := s.db.ExecContext(ctx, auditSQL, staterow.Clean(by), string(action), staterow.TableFilterJSON(f, table), changed)
	return stateError("write an audit record", err)
}
