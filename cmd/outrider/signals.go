package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// errForced is the error of a command that did not end after one signal.
var errForced = errors.New("ended by a second signal: messages in flight are delivered again at the next start")

// sameRequest is how close together two signals are one request to stop: some
// supervisors (timeout of GNU coreutils for one) signal the process and then its
// whole group, and no person presses Ctrl-C twice that fast.
const sameRequest = 250 * time.Millisecond

// untilSignal runs f with a context that ends with the first SIGINT or SIGTERM,
// after saying so. It does not wait for f after a second one.
func untilSignal(ctx context.Context, say func(string), f func(context.Context) error) error {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	select {
	case err := <-done:
		return err
	case <-signals:
		say("stopping; a second signal ends the process at once")
		cancel()
	}
	first := time.Now()
	for {
		select {
		case err := <-done:
			return err
		case <-signals:
			if time.Since(first) > sameRequest {
				return errForced
			}
		}
	}
}
