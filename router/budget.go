package router

import "sync/atomic"

// budget is the memory that messages on their way may take in the whole
// process. It is a bound on what is read, not an allocator: the reader asks
// before it keeps a row.
type budget struct {
	limit int64
	used  atomic.Int64
	wake  func() // called when memory was given back while little was left
}

// take reserves n bytes. The first message always fits, however large.
func (b *budget) take(n int64) bool {
	for {
		used := b.used.Load()
		if used > 0 && used+n > b.limit {
			return false
		}
		if b.used.CompareAndSwap(used, used+n) {
			return true
		}
	}
}

// force reserves n bytes that are needed whatever the limit says.
func (b *budget) force(n int64) { b.used.Add(n) }

// give returns n bytes.
func (b *budget) give(n int64) {
	after := b.used.Add(-n)
	if low := b.limit / 2; after < low && after+n >= low {
		b.wake()
	}
}

// free is what can still be taken.
func (b *budget) free() int64 { return b.limit - b.used.Load() }
