package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/outriderhq/outrider/admin/operate"
)

// Bounds of searches: requests that may have to read all parked messages, or whole tables. They leave connections to the databases for
// everything else that the console is asked.
const (
	searchesEach   = 2 // of a caller at a time
	searchesMost   = 3 // of all; a state store's console has six connections
	searchPatience = 2 * time.Second
	searchTime     = 25 * time.Second // of one; the answer must be written within 30 s
)

// ErrBusy is the error of a search for which there was no room.
var ErrBusy = errors.New("too many searches are in progress: try again in a few seconds, or narrow them by route, group or id")

// searches are the turns of those in progress.
type searches struct {
	mu sync.Mutex
	of map[string]chan struct{} // by caller; those of all under the empty name
}

// turns are those of a caller.
func (s *searches) turns(caller string, most int) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = map[string]chan struct{}{}
	}
	if s.of[caller] == nil {
		s.of[caller] = make(chan struct{}, most)
	}
	return s.of[caller]
}

// Search is [Console.Use] for a search of the caller whose request has this context. It waits a little for its turn, and ends after a time.
func (c *Console) Search(ctx context.Context, f func(context.Context, *operate.Operator) error) error {
	return c.search(ctx, func(ctx context.Context) error {
		return c.Use(ctx, func(op *operate.Operator) error { return f(ctx, op) })
	})
}

func (c *Console) search(ctx context.Context, f func(context.Context) error) error {
	who := operate.CallerOf(ctx)
	own, all := c.searches.turns("caller "+cmp.Or(who.Token, who.Name), searchesEach), c.searches.turns("", searchesMost)
	patience := time.After(searchPatience)
	if err := take(ctx, own, patience); err != nil {
		return err
	}
	defer func() { <-own }()
	if err := take(ctx, all, patience); err != nil {
		return err
	}
	defer func() { <-all }()
	limited, cancel := context.WithTimeout(ctx, searchTime)
	defer cancel()
	err := f(limited)
	if err != nil && ctx.Err() == nil && limited.Err() != nil {
		return fmt.Errorf("the search took longer than %v: narrow it by route, group, type or id: %w", searchTime, limited.Err())
	}
	return err
}

// take waits for a turn.
func take(ctx context.Context, turns chan<- struct{}, patience <-chan time.Time) error {
	select {
	case turns <- struct{}{}:
		return nil
	case <-patience:
		return ErrBusy
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Journey finds an event in the tables of all sources, in the state stores, and in the memory
// of this instance.
func (c *Console) Journey(ctx context.Context, id string) (j *operate.Journey, err error) {
	err = c.Search(ctx, func(ctx context.Context, op *operate.Operator) (err error) {
		j, err = op.JourneyWith(ctx, id, c.relay.Trace)
		return err
	})
	return j, err
}
