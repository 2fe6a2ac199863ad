// Package cow has lists that are copied on write.
package cow

import "sync/atomic"

// List is read by any goroutine, without a lock, and written by one at a time. What All has returned does not change.
type List[T any] struct{ now atomic.Pointer[[]T] }

// All returns the elements, which the caller must not change.
func (l *List[T]) All() []T {
	if now := l.now.Load(); now != nil {
		return *now
	}
	return nil
}

// Replace removes the elements for which gone returns true, nil: none, and appends others.
func (l *List[T]) Replace(gone func(T) bool, others ...T) {
	var next []T
	for _, e := range l.All() {
		if gone == nil || !gone(e) {
			next = append(next, e)
		}
	}
	next = append(next, others...)
	l.now.Store(&next)
}

// Append appends an element.
func (l *List[T]) Append(e T) { l.Replace(nil, e) }
