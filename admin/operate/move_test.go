package operate

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
)

// answering is a source that says one thing of all cursors.
type answering struct {
	adapters.OperatorSource
	err error
}

func (a answering) Validate(context.Context, adapters.Cursor) error { return a.err }

// A cursor is bad only when its source says so. One whose source cannot be asked is
// neither repositioned by rebase nor passed over by seek.
func TestACursorIsBadOnlyWhenItsSourceSaysSo(t *testing.T) {
	t.Parallel()
	table := adapters.Table{Name: "outrider_outbox"}
	lanes := []adapters.LaneStatus{{Table: table, UpdatedAt: time.Now()}}
	away := errors.New("the database system is starting up")
	for name, tt := range map[string]struct {
		err  error
		good bool
		want error
	}{
		"good":              {nil, true, nil},
		"put back":          {fmt.Errorf("behind: %w", adapters.ErrWentBack), false, nil},
		"of another kind":   {fmt.Errorf("%w", adapters.ErrForeignCursor), false, nil},
		"cannot be asked":   {away, false, away},
		"no answer in time": {context.DeadlineExceeded, false, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			good, err := stillGood(t.Context(), answering{err: tt.err}, lanes, table)
			if good != tt.good || !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) {
				t.Errorf("good: %t, %v; want %t, %v", good, err, tt.good, tt.want)
			}
		})
	}
}
