// Package signal has the signals and timers that the parts of a router wait for.
package signal

import (
	"sync"
	"time"
)

// Send leaves a signal for the receiver of c, unless one is there already.
func Send(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Timer is a timer that signals on an ordinary channel. The channels of package time crash Go 1.26's race detector when several goroutines of
// a testing/synctest bubble wait on them, and the router is tested in such bubbles.
type Timer struct {
	C     chan struct{} // receives one value after the time
	every time.Duration // 0: once

	mu    sync.Mutex
	timer *time.Timer
}

// After returns a timer that fires once.
func After(d time.Duration) *Timer { return newTimer(d, 0) }

// Every returns a timer that fires again and again.
func Every(d time.Duration) *Timer { return newTimer(d, d) }

func newTimer(d, again time.Duration) *Timer {
	t := &Timer{C: make(chan struct{}, 1), every: again}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.timer = time.AfterFunc(d, t.fire)
	return t
}

func (t *Timer) fire() {
	t.mu.Lock()
	defer t.mu.Unlock()
	Send(t.C)
	if t.every > 0 {
		t.timer.Reset(t.every)
	}
}

// Stop stops the timer. One that fires at this moment may fire once more.
func (t *Timer) Stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.every = 0
	t.timer.Stop()
}

// Sleep waits until the time has passed or done is closed. It reports whether the time has passed.
func Sleep(d time.Duration, done <-chan struct{}) bool {
	timer := After(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-done:
		return false
	}
}
