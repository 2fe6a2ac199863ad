package outbox

import (
	"crypto/rand"
	"errors"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
)

// idSource makes the ids of envelopes that were given none: ULIDs, each greater
// than the one before it. It is safe for concurrent use.
type idSource struct {
	mu      sync.Mutex
	now     func() time.Time
	entropy *ulid.MonotonicEntropy
	last    uint64 // milliseconds of the last id
}

// ids serves the whole process. The library's own default is not used: it goes
// back when the clock does, and takes its randomness from a seed that two
// processes can share.
var ids = newIDSource(time.Now)

func newIDSource(now func() time.Time) *idSource {
	return &idSource{now: now, entropy: ulid.Monotonic(rand.Reader, 0)}
}

// next returns the next id. While the clock is behind the last id, ids keep the time of that.
func (s *idSource) next() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ms := max(ulid.Timestamp(s.now()), s.last)
	id, err := ulid.New(ms, s.entropy)
	if errors.Is(err, ulid.ErrMonotonicOverflow) {
		// The random part began so high that this millisecond is used up.
		ms++
		id, err = ulid.New(ms, s.entropy)
	}
	if err != nil {
		return "", err
	}
	s.last = ms
	return id.String(), nil
}
