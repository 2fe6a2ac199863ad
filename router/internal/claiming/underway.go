package claiming

import "context"

// underWay is which claims are under way: one whose statement runs, and the one before
// it whose rows are being handed out. It is part of the ledger, and guarded by its mutex.
type underWay struct {
	claims  uint64        // number of the last claim that has begun
	asking  bool          // it is not known yet what that one brings
	placing bool          // rows of the one before, or of that one, are being handed out
	placed  uint64        // this claim and those before it are over
	changed chan struct{} // closed when a claim is over; nil: nothing waits for that
}

// begin numbers a claim that begins.
func (l *ledger) begin() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asking = true
	l.claims++
	return l.claims
}

// asked notes what the claim brought: rows that are handed out now, or nothing.
func (l *ledger) asked(rows bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asking, l.placing = false, l.placing || rows
	l.over(l.placed)
}

// handedOut notes that the rows of a claim are in their lanes or on their way back.
func (l *ledger) handedOut(claim uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.placing = false
	l.over(claim)
}

// over notes that a claim and those before it are over, and wakes those who wait. Call with the mutex held.
func (u *underWay) over(claim uint64) {
	if u.placed = claim; !u.asking && !u.placing {
		u.placed = u.claims
	}
	if u.changed != nil {
		close(u.changed)
		u.changed = nil
	}
}

// await waits until all claims that have begun so far are over.
func (l *ledger) await(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for n := l.claims; l.placed < n; {
		if l.changed == nil {
			l.changed = make(chan struct{})
		}
		changed := l.changed
		l.mu.Unlock()
		var err error
		select {
		case <-changed:
		case <-ctx.Done():
			err = ctx.Err()
		}
		l.mu.Lock()
		if err != nil {
			return err
		}
	}
	return nil
}
