package console

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/outriderhq/outrider/admin/operate"
)

// A caller's slow searches keep neither others' searches out for long nor each other's answers back for ever.
func TestSearchesAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &Console{}
		one, other := operate.WithCaller(t.Context(), operate.Caller{Token: "1"}), operate.WithCaller(t.Context(), operate.Caller{Token: "2"})
		slow := func(ctx context.Context) error {
			<-ctx.Done()
			return fmt.Errorf("a query: %w", ctx.Err())
		}
		answers := make(chan error, 60)
		for range 60 {
			go func() { answers <- c.search(one, slow) }()
		}
		synctest.Wait()
		if n := len(c.searches.turns("", searchesMost)); n != searchesEach {
			t.Errorf("%d searches of one caller at a time, want %d", n, searchesEach)
		}
		if err := c.search(other, func(context.Context) error { return nil }); err != nil {
			t.Errorf("another caller's: %v", err)
		}
		busy, late := 0, 0
		for range 60 {
			switch err := <-answers; {
			case errors.Is(err, ErrBusy):
				busy++
			case errors.Is(err, context.DeadlineExceeded):
				late++
			}
		}
		if busy != 60-searchesEach || late != searchesEach {
			t.Errorf("%d searches had no turn, %d took too long", busy, late)
		}
		failed := errors.New("no")
		if err := c.search(one, func(context.Context) error { return failed }); !errors.Is(err, failed) || len(c.searches.turns("", searchesMost)) != 0 {
			t.Errorf("afterwards: %v", err)
		}
	})
}
