package adapters_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
)

// batchOf makes messages whose group is the first letter of their id.
func batchOf(ids ...string) (batch []*message.Message) {
	for _, id := range ids {
		batch = append(batch, message.NewMessage(id, nil))
	}
	return batch
}

func groupOf(msg *message.Message) string { return msg.UUID[:1] }

func repeat(err error, n int) []error { return slices.Repeat([]error{err}, n) }

func TestInPartsFindsWhoIsAtFaultAndStopsItsGroup(t *testing.T) {
	t.Parallel()
	batch := batchOf("a1", "b1", "a2", "c1", "b2", "a3", "c2", "b3")
	bad := errors.New("bad")
	var tries int
	errs := adapters.InParts(batch, groupOf, func(part []*message.Message) ([]error, error) {
		tries++
		if slices.ContainsFunc(part, func(m *message.Message) bool { return m.UUID == "a2" }) {
			return repeat(bad, len(part)), nil
		}
		return nil, nil
	})
	for i, msg := range batch {
		switch id := msg.UUID; id {
		case "a2":
			if !errors.Is(errs[i], bad) {
				t.Errorf("%s: %v, want %v", id, errs[i], bad)
			}
		case "a3":
			if outbox.KindOf(errs[i]) != outbox.KindReleased {
				t.Errorf("%s: %v, want that it is released: it is behind a2", id, errs[i])
			}
		default:
			if errs[i] != nil {
				t.Errorf("%s: %v, want that it is delivered", id, errs[i])
			}
		}
	}
	if tries > 7 {
		t.Errorf("%d transactions, want 7 at most", tries)
	}
}

// TestInPartsTriesNothingAgainThatIsNotOurs: of each message by itself it is known that somebody else has it, or that an operator took it away.
func TestInPartsTriesNothingAgainThatIsNotOurs(t *testing.T) {
	t.Parallel()
	lost := []error{outbox.Released(adapters.ErrLost), outbox.Skip("operator"), outbox.Released(adapters.ErrLost)}
	tries := 0
	errs := adapters.InParts(batchOf("a1", "b1", "c1"), groupOf, func([]*message.Message) ([]error, error) {
		tries++
		return lost, nil
	})
	if tries != 1 || !slices.Equal(errs, lost) {
		t.Errorf("%d transactions with the results %v, want one with %v", tries, errs, lost)
	}
}

// TestInPartsTriesTheWholeBatchAgainAfterAConflict: a conflict is no message's fault, so it is not looked for who is at
// fault, and nobody's attempt counts.
func TestInPartsTriesTheWholeBatchAgainAfterAConflict(t *testing.T) {
	t.Parallel()
	conflict := fmt.Errorf("deadlock: %w", adapters.ErrConflict)
	for _, tt := range []struct{ conflicts, tries int }{{1, 2}, {4, 5}, {1000, 5}} {
		batch := batchOf("a1", "b1", "a2", "c1")
		tries := 0
		errs := adapters.InParts(batch, groupOf, func(part []*message.Message) ([]error, error) {
			if tries++; len(part) != len(batch) {
				t.Errorf("%d conflicts: %d messages were tried, want all of them", tt.conflicts, len(part))
			}
			if tries <= tt.conflicts {
				return repeat(conflict, len(part)), nil
			}
			return nil, nil
		})
		if tries != tt.tries {
			t.Errorf("%d conflicts: %d tries, want %d", tt.conflicts, tries, tt.tries)
		}
		if delivered := tt.conflicts < tt.tries; delivered != (errs == nil) {
			t.Errorf("%d conflicts: %v", tt.conflicts, errs)
		}
		for _, err := range errs {
			if outbox.KindOf(err) != outbox.KindUnavailable || !errors.Is(err, adapters.ErrConflict) {
				t.Errorf("%d conflicts: %v, want that it is unavailable", tt.conflicts, err)
			}
		}
	}
}
