package ownership

import (
	"context"
	"maps"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/router/internal/lane"
	"github.com/outriderhq/outrider/router/internal/settling"
)

const (
	// askPatience is how long a settle waits for the answers of sources: one that is down must not keep the progress of others from being written.
	askPatience = time.Second

	// doubtFor is how long progress waits for a source that does not answer. The state store answers and can lack nothing of the source's
	// server then, unless both fail over, which takes less.
	doubtFor = 10 * time.Second
)

// screen is [settling.Settler].Screen. After a failover that lost rows, progress over those would be written into a state store that has just
// been put back together with the table. So when a connection broke, cursors are looked at before they are written.
func (m *Manager) screen(ctx context.Context, batches []settling.Batch) (good, gone []settling.Batch, waits settling.WaitError) {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	silent := map[adapters.Source]error{}
	for _, b := range batches {
		switch valid, unknown := m.valid(ctx, b.(*lane.Session), silent); { //nolint:forcetypeassert // a manager's batches are sessions
		case unknown != nil:
			if waits == nil {
				waits = settling.WaitError{}
			}
			waits[b] = unknown
		case valid:
			good = append(good, b)
		default:
			gone = append(gone, b)
		}
	}
	maps.DeleteFunc(m.doubted, func(src adapters.Source, _ time.Time) bool { return silent[src] == nil })
	return good, gone, waits
}

// valid reports whether a session's cursors are valid, or that it is not known.
func (m *Manager) valid(ctx context.Context, s *lane.Session, silent map[adapters.Source]error) (bool, error) {
	r, ok := s.Route.Lease.(*Route) // in tests it can be another
	if !ok || r.Source == nil {
		return true, nil
	}
	cursors, doubted := lane.Doubted(s)
	if !doubted {
		return true, nil
	}
	err := silent[r.Source]
	for i := 0; err == nil && i < len(cursors); i++ {
		if err = r.Source.Validate(ctx, cursors[i]); adapters.IsInvalidCursor(err) {
			return false, nil
		}
	}
	if err == nil {
		return true, nil
	}
	silent[r.Source] = err
	lane.Doubt(s)
	if m.doubted[r.Source].IsZero() {
		m.doubted[r.Source] = time.Now()
	}
	if time.Since(m.doubted[r.Source]) > doubtFor {
		return true, nil
	}
	return false, err
}
