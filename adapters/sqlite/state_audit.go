package sqlite

import (
	"context"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/staterow"
)

var _ adapters.Auditor = (*State)(nil)

// Audit implements [adapters.Auditor].
func (s *State) Audit(ctx context.Context, by string, action adapters.ParkedAction, f adapters.ParkedFilter, table string, changed int) error {
	_, err := s.db.ExecContext(ctx, auditSQL, time.Now().UnixMicro(), staterow.Clean(by), string(action), staterow.TableFilterJSON(f, table), changed)
	if err != nil {
		return s.wrap("write an audit record", err)
	}
	return nil
}
