package wake

import (
	"testing"
	"testing/synctest"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters"
)

// A reader that cannot be answered in time, because a slow server keeps the listener busy, looks again soon: it does not
// rest for as long as one that nobody would wake.
func TestG13_ABusyListenerDelaysNobodyForAWholePoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(Notify, nil, nil, pgx.Identifier{"t"})
		w.ready.Store(true) // and nobody receives what is asked
		if got := w.Sleep(t.Context()); got != adapters.Draining {
			t.Errorf("a busy listener: %v, want Draining (%v)", got, adapters.Draining)
		}
		w.ready.Store(false)
		if got := w.Sleep(t.Context()); got != adapters.Unsupported {
			t.Errorf("a connection that is lost: %v, want Unsupported (%v)", got, adapters.Unsupported)
		}
	})
}
