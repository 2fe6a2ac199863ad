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

// Alarm is a timer that signals on an ordinary channel. The channels of package
// time's own timers crash Go 1.26's race detector when several goroutines of a
// testing/synctest bubble wait on them, and those bubbles are how this package is
// tested; besides, an alarm can be waited for together with other signals.
type Alarm struct {
	C     chan struct{} // receives one value after the time
	every time.Duration // 0: once

	mu    sync.Mutex
	timer *time.Timer
}

// After returns an alarm that rings once.
func After(d time.Duration) *Alarm { return newAlarm(d, 0) }

// Every returns an alarm that rings again and again.
func Every(d time.Duration) *Alarm { return newAlarm(d, d) }

func newAlarm(d, again time.Duration) *Alarm {
	a := &Alarm{C: make(chan struct{}, 1), every: again}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.timer = time.AfterFunc(d, a.ring)
	return a
}

func (a *Alarm) ring() {
	a.mu.Lock()
	defer a.mu.Unlock()
	Send(a.C)
	if a.every > 0 {
		a.timer.Reset(a.every)
	}
}

// Stop silences the alarm. One that rings at this moment may ring once more.
func (a *Alarm) Stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.every = 0
	a.timer.Stop()
}

// Sleep waits until the time has passed or done is closed. It reports whether the time has passed.
func Sleep(d time.Duration, done <-chan struct{}) bool {
	alarm := After(d)
	defer alarm.Stop()
	select {
	case <-alarm.C:
		return true
	case <-done:
		return false
	}
}
