package adaptertest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
)

// Harness is a destination under test and its receiver. Fields that are nil or
// empty say that the technology has no such thing; the tests that need it are
// skipped.
type Harness struct {
	// Destination delivers to the receiver. The suite closes it.
	Destination adapters.Destination

	// Addresses are distinct addresses that take messages: at least one.
	Addresses []string

	// Received returns what the receiver took at an address, in the order of
	// arrival. Everything delivered before the call is in it.
	Received func(t *testing.T, address string) []Received

	// Opaque says that the receiver sees payloads alone: the suite then tells
	// messages apart by payload and checks no attributes.
	Opaque bool

	// JSONOnly says that payloads that are not JSON are refused.
	JSONOnly bool

	// Missing is an address without a server, and Create makes it exist.
	Missing string
	Create  func(t *testing.T)

	// Reject makes the receiver refuse the message with that id for good.
	Reject func(id string)

	// Hang makes the receiver take requests and not answer them, until the
	// returned function is called.
	Hang func(t *testing.T) (release func())

	// Break makes the receiver unreachable, until the returned function is
	// called.
	Break func(t *testing.T) (repair func())
}

// Received is a message as its receiver sees it.
type Received struct {
	ID       string
	Type     string
	Position string
	Lane     string
	Payload  []byte // nil: there was none, where that differs from an empty one
}

// maxWait bounds what must happen, not how fast: only a failing test takes so
// long.
const maxWait = 60 * time.Second

// lane is where the suite's messages pretend to come from.
const lane = "suite/03"

// row returns the n-th message of a group. The payload is JSON that a
// re-serialisation would change.
func row(group string, n int) *adapters.Row {
	id := fmt.Sprintf("%s-%04d", group, n)
	if group == "" {
		id = fmt.Sprintf("none-%04d", n)
	}
	return &adapters.Row{
		ID:       id,
		Type:     "suite.happened",
		Group:    group,
		Position: int64(n) + 1,
		Payload:  fmt.Appendf(nil, "{ \"id\":\t\"%s\", \"n\": %d.50, \"s\": \"\\u00e9 é <&>\" }", id, n),
	}
}

func messages(group string, from, n int) []*message.Message {
	batch := make([]*message.Message, n)
	for i := range batch {
		batch[i] = adapters.NewMessage(row(group, from+i), lane)
	}
	return batch
}

// mixed returns n messages of each group, taking turns.
func mixed(groups []string, n int) []*message.Message {
	var batch []*message.Message
	for i := range n {
		for _, g := range groups {
			batch = append(batch, messages(g, i, 1)...)
		}
	}
	return batch
}

// errHeld is the result of a message that the suite's deliver does not send.
var errHeld = outbox.Released(errors.New("an earlier message of the group was not delivered"))

// deliver sends messages the way router would, in batches as the destination's
// ordering allows and nothing of a group behind one that failed, and returns one
// error per message.
func deliver(ctx context.Context, d adapters.Destination, address string, msgs []*message.Message) []error {
	errs := make([]error, len(msgs))
	failed := map[string]bool{}
	for from := 0; from < len(msgs); {
		n := batchLen(d.Ordering(), msgs[from:])
		var batch []*message.Message
		var index []int
		for i := from; i < from+n; i++ {
			if g := msgs[i].Metadata[outbox.MetaGroup]; g != "" && failed[g] {
				errs[i] = errHeld
				continue
			}
			batch, index = append(batch, msgs[i]), append(index, i)
		}
		for i, err := range d.Deliver(ctx, address, batch) {
			errs[index[i]] = err
			if err != nil {
				failed[batch[i].Metadata[outbox.MetaGroup]] = true
			}
		}
		from += n
	}
	return errs
}

// batchLen returns how many of the next messages fit one batch.
func batchLen(o adapters.Ordering, msgs []*message.Message) int {
	groups, size := map[string]int{}, 0
	for i, msg := range msgs {
		group := msg.Metadata[outbox.MetaGroup]
		groups[group]++
		size += len(msg.Payload)
		switch {
		case i == 0:
		case i == max(o.MaxMessages, 1), o.MaxGroups > 0 && len(groups) > o.MaxGroups, o.MaxBytes > 0 && size > o.MaxBytes,
			o.PerGroup > 0 && group != "" && groups[group] > o.PerGroup:
			return i
		}
	}
	return len(msgs)
}
