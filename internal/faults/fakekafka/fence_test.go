package fakekafka

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/outriderhq/outrider/adapters/kafka"
	"github.com/outriderhq/outrider/outbox"
)

// failTransactions answers requests for producer ids and ends of transactions
// with the code that is set; 0 lets them pass.
func failTransactions(c *kfake.Cluster, key kmsg.Key, code *atomic.Int32) {
	c.ControlKey(int16(key), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if code.Load() == 0 {
			return nil, nil, false
		}
		switch resp := r.ResponseKind().(type) {
		case *kmsg.InitProducerIDResponse:
			resp.ErrorCode = int16(code.Load())
			return resp, nil, true
		case *kmsg.EndTxnResponse:
			resp.ErrorCode = int16(code.Load())
			return resp, nil, true
		}
		return nil, nil, false
	})
}

func TestG10_IDsThatCannotBeTaken(t *testing.T) {
	t.Parallel()
	for want, failing := range map[string]*kerr.Error{
		"raise their transaction.max.timeout.ms": kerr.InvalidTransactionTimeout,
		`ids that begin with "shop-"`:            kerr.TransactionalIDAuthorizationFailed,
		"grant IDEMPOTENT_WRITE":                 kerr.ClusterAuthorizationFailed,
		"must not exceed the number of brokers":  kerr.CoordinatorNotAvailable,
		"cannot be initialised":                  kerr.UnsupportedVersion,
	} {
		t.Run(failing.Message, func(t *testing.T) {
			t.Parallel()
			c := fake(t)
			var code atomic.Int32
			failTransactions(c, kmsg.InitProducerID, &code)
			d := destination(t, kafka.Config{Brokers: c.ListenAddrs(), Topic: "t", Timeout: shortest, Exclusive: true, TransactionalID: "shop"})
			code.Store(int32(failing.Code))
			wantError(t, d.Check(t.Context()), want)
			own, msgs := through(t, d, "orders/07"), []*message.Message{newMessage("1", "g"), newMessage("2", "")}
			wantUnavailable(t, own, msgs, want)
			code.Store(0)
			untilDelivered(t, own, msgs)
		})
	}
}

// A commit that fails may have been carried out or not: its messages are sent
// again, and no attempt is charged.
func TestCommitThatFails(t *testing.T) {
	t.Parallel()
	for failing, want := range map[*kerr.Error]string{
		kerr.ProducerFenced:          "map[1:released 2:released]",
		kerr.InvalidTxnState:         "map[1:released 2:released]",
		kerr.UnknownServerError:      "map[1:unavailable 2:unavailable]",
		kerr.TransactionAbortable:    "map[1:unavailable 2:unavailable]",
		kerr.CoordinatorNotAvailable: "map[1:unavailable 2:unavailable]",
	} {
		t.Run(failing.Message, func(t *testing.T) {
			t.Parallel()
			c := fake(t)
			var code atomic.Int32
			failTransactions(c, kmsg.EndTxn, &code)
			cfg := exclusive(c)
			cfg.Timeout = shortest
			own, msgs := through(t, destination(t, cfg), "orders/07"), []*message.Message{newMessage("1", "g"), newMessage("2", "g")}
			untilDelivered(t, own, []*message.Message{newMessage("0", "g")})
			code.Store(int32(failing.Code))
			if got := fmt.Sprint(results(msgs, own.Deliver(t.Context(), "t", msgs))); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			code.Store(0)
			untilDelivered(t, own, msgs)
			if got := fmt.Sprint(ids(t, c, "g")); got != "[0 1 2]" {
				t.Errorf("a consumer with read_committed sees %s", got)
			}
		})
	}
}

// Nothing is sent while the owner of the lane is unknown.
func TestUnknownOwnershipSendsNothing(t *testing.T) {
	t.Parallel()
	c := fake(t)
	asked := 0
	own := destination(t, exclusive(c)).Fence("orders/07", func(context.Context) (bool, error) {
		asked++
		if asked <= 2 {
			return asked == 1, errors.New("the database is down")
		}
		return true, nil
	})
	msgs := []*message.Message{newMessage("1", "g")}
	for range 2 {
		errs := own.Deliver(t.Context(), "t", msgs)
		if errs == nil || outbox.KindOf(errs[0]) != outbox.KindReleased || !strings.Contains(errs[0].Error(), "the database is down") {
			t.Errorf("got %v, want a release with the reason", errs)
		}
	}
	untilDelivered(t, own, msgs)
	if err := own.Close(); err != nil {
		t.Error(err)
	}
	if got := results(msgs, own.Deliver(t.Context(), "t", msgs)); got["1"] != "released" {
		t.Errorf("after Close: %v", got)
	}
}
