package server

import (
	"context"
	"fmt"
	"time"
)

// startLimit limits how long a server takes until it answers. A broker on a busy
// machine with two cores needs 10 to 20 seconds.
const startLimit = 2 * time.Minute

// awaitReady asks again and again until the server answers, has exited, or its
// time is up. Errors end with the server's log.
func awaitReady(ctx context.Context, name string, p *process, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.exited:
			return fmt.Errorf("%s exited while starting; its log ends:\n%s", name, p.tail())
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer (%w: %w); its log ends:\n%s", name, ctx.Err(), err, p.tail())
		case <-time.After(50 * time.Millisecond):
		}
	}
}
