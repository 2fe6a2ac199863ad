package settling

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outriderhq/outrider/adapters"
)

// idleBatch has nothing to write.
type idleBatch struct{ name string }

func (*idleBatch) Settlements(Extent) []adapters.Settlement { return nil }
func (*idleBatch) Settled(bool)                             {}

// A flush of one batch is not told that others wait; a flush of all is.
func TestFlushesAreToldOfTheirOwnBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		away, written, waiting := errors.New("away"), &idleBatch{"written"}, &idleBatch{"waiting"}
		s := New(nil, slog.New(slog.DiscardHandler), time.Millisecond, time.Minute)
		s.Batches = func() []Batch { return []Batch{written, waiting} }
		s.Screen = func(context.Context, []Batch) (good, gone []Batch, waits WaitError) {
			return []Batch{written}, nil, WaitError{waiting: away}
		}
		go s.Run(ctx)
		if err := s.Flush(ctx, Concluded, written); err != nil {
			t.Errorf("the batch that is written: %v", err)
		}
		if err := s.Flush(ctx, Concluded, waiting); !errors.Is(err, away) {
			t.Errorf("the batch that waits: %v", err)
		}
		if err := s.Flush(ctx, Concluded, nil); err == nil || err.Error() != "away" {
			t.Errorf("all: %v", err)
		}
	})
}
