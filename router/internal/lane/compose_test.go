package lane

import (
	"fmt"
	"log/slog"
	"runtime"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/router/internal/settling"
)

// Composing the handlers of a route needs no more memory beside others: Watermill's router copies the middleware of all handlers for each.
func TestComposingIsLinear(t *testing.T) { //nolint:paralleltest // it measures allocations of the process
	perRoute := func(n int) uint64 {
		shared := &Shared{Logger: slog.New(slog.DiscardHandler), Settlers: func(adapters.StateStore) *settling.Settler { return nil }}
		var routes []*Route
		for i := range n {
			routes = append(routes, NewRoute(Config{Name: fmt.Sprint("r", i), Destination: anywhere{}, Middleware: []message.HandlerMiddleware{
				func(h message.HandlerFunc) message.HandlerFunc { return h }}}, shared))
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if err := Compose(routes); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		return (after.TotalAlloc - before.TotalAlloc) / uint64(n)
	}
	if one, many := perRoute(1), perRoute(32); many > 2*one {
		t.Errorf("%d bytes for each of 32 routes, %d for one", many, one)
	}
}

// anywhere is a destination to which nothing is sent.
type anywhere struct{ adapters.Destination }

func (anywhere) Ordering() adapters.Ordering { return adapters.Ordering{} }
