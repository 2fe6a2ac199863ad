package claiming

import (
	"context"
	"sync"
)

// underWay is which claims are under way: one whose statement runs, and the one before
// it whose rows are being handed out.
type underWay struct {
	mu      sync.Mutex
	begun   uint64        // number of the last claim
	asking  bool          // it is not known yet what that one brings
	placing uint64        // number of the claim whose rows are being handed out; 0: none
	changed chan struct{} // closed when any of this changes; nil: nobody waits for it
}

// begin notes that a claim begins.
func (u *underWay) begin() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.begun, u.asking = u.begun+1, true
}

// asked notes what the claim brought: rows that are handed out now, or nothing.
func (u *underWay) asked(rows bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.asking = false; rows {
		u.placing = u.begun
	}
	u.tell()
}

// placed notes that the rows of a claim are in their lanes or on their way back.
func (u *underWay) placed() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.placing = 0
	u.tell()
}

// tell wakes those who wait. Call with the mutex held.
func (u *underWay) tell() {
	if u.changed != nil {
		close(u.changed)
		u.changed = nil
	}
}

// await waits until all claims that have begun so far are over.
func (u *underWay) await(ctx context.Context) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	for n := u.begun; u.asking && u.begun == n || u.placing != 0 && u.placing <= n; {
		if u.changed == nil {
			u.changed = make(chan struct{})
		}
		changed := u.changed
		u.mu.Unlock()
		var err error
		select {
		case <-changed:
		case <-ctx.Done():
			err = ctx.Err()
		}
		u.mu.Lock()
		if err != nil {
			return err
		}
	}
	return nil
}
