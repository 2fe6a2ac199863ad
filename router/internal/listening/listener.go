// Package listening feeds lanes from a Watermill Subscriber, which gets the acks.
package listening

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/outriderhq/outrider/internal/shorten"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/router/internal/lane"
	"github.com/outriderhq/outrider/router/internal/logging"
	"github.com/outriderhq/outrider/router/internal/signal"
)

// Config says what is listened to.
type Config struct {
	Subscriber message.Subscriber
	Topic      string
	MaxRow     int64 // largest payload in bytes; 0: adapters.DefaultMaxRow
}

// Listener feeds a route from a Watermill Subscriber. There is no cursor: a message is acked when it was delivered or skipped, or when its
// parked row is durable, and nacked when it was released. It subscribes while the route's lanes are ours: messages for the lanes of another
// instance must not come here.
type Listener struct {
	Route *lane.Route
	Cfg   Config
	wake  chan struct{} // a lane may have room again, or be ours

	Outage logging.Outage // it has no subscription, or has just made one
	tries  int            // subscriptions in a row that brought nothing; only run uses it
	once   bool           // there was a subscription; only run uses it

	mu  sync.Mutex
	sub context.CancelFunc // ends the subscription; nil: there is none
}

// New returns the listener of a route.
func New(rt *lane.Route, cfg Config) *Listener {
	return &Listener{Route: rt, Cfg: cfg, wake: make(chan struct{}, 1)}
}

// The pauses between tries to subscribe: doubled from the first to the longest.
const (
	firstSubscribePause   = 100 * time.Millisecond
	LongestSubscribePause = 30 * time.Second

	// Steady is after how long a subscription counts as working, if no message comes before.
	Steady = 5 * time.Second
)

var errChannelClosed = errors.New("the subscriber closed its channel, so no message comes any more")

// Run takes messages until ctx ends. If a subscriber closes its channel, or fails to subscribe again, Run repeats that: the broker's connection
// may come back. If the first subscription fails, Run returns the error. The last subscription lasts as long as listening does.
func (l *Listener) Run(ctx, listening context.Context) error {
	for ctx.Err() == nil {
		if len(l.Route.Sessions()) == 0 {
			l.Outage.End(l.Route.Log(), "") // it is another instance's now
			select {
			case <-l.wake:
			case <-ctx.Done():
			}
			continue
		}
		err := l.listen(ctx, listening)
		switch {
		case err == nil:
			continue
		case !l.once:
			return err
		}
		l.Outage.Fail(l.Route.Log(), slog.LevelWarn, "the route gets no messages; subscribing again", err, "topic", l.Cfg.Topic)
		signal.Sleep(min(firstSubscribePause<<min(l.tries, 10), LongestSubscribePause), ctx.Done())
		l.tries++
	}
	return nil
}

func (l *Listener) works() {
	l.Outage.End(l.Route.Log(), "the route gets messages again")
	l.tries = 0
}

// listen takes messages as long as the lanes are ours. The error says why the subscription ended.
func (l *Listener) listen(ctx, listening context.Context) error {
	subscribed, cancel := context.WithCancel(listening)
	l.mu.Lock()
	l.sub = cancel
	l.mu.Unlock()
	msgs, err := l.Cfg.Subscriber.Subscribe(subscribed, l.Cfg.Topic)
	if err != nil {
		cancel()
		return fmt.Errorf("route %q: subscribe to %q: %w", l.Route.Name, l.Cfg.Topic, err)
	}
	l.once = true
	lasting := signal.After(Steady)
	defer lasting.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil // the subscription lasts until everything is settled
		case <-subscribed.Done():
			go refuse(listening, msgs)
			return nil
		case <-lasting.C:
			l.works()
		case msg, ok := <-msgs:
			if !ok {
				ended := subscribed.Err() != nil
				cancel()
				if ended {
					return nil
				}
				return errChannelClosed
			}
			if l.tries > 0 {
				l.works()
			}
			if !l.accept(ctx, subscribed, msg) {
				msg.Nack()
			}
		}
	}
}

// refuse nacks what a subscription that has ended still yields.
func refuse(listening context.Context, msgs <-chan *message.Message) {
	for {
		select {
		case msg, ok := <-msgs:
			if !ok {
				return
			}
			msg.Nack()
		case <-listening.Done():
			return
		}
	}
}

var _ lane.Feeder = (*Listener)(nil)

// RoomFreed implements [lane.Feeder].
func (l *Listener) RoomFreed() { signal.Send(l.wake) }

// Wake implements [lane.Feeder].
func (l *Listener) Wake() { signal.Send(l.wake) }

// AddressBack implements [lane.Feeder]: what waits for an address is in the lanes.
func (l *Listener) AddressBack() {}

// GiveUp implements [lane.Feeder]: it ends the subscription, when the acks are out, so that another instance gets the messages.
func (l *Listener) GiveUp(context.Context, []adapters.LaneRef) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sub != nil {
		l.sub()
		l.sub = nil
	}
	return nil
}

// Origin implements [lane.Feeder].
func (l *Listener) Origin(*lane.Session) lane.Origin {
	return &messageOrigin{listener: l, unacked: map[*message.Message]struct{}{}}
}

// messageOrigin acks a session's messages to their subscriber. Parked messages are durable and were acked.
type messageOrigin struct {
	lane.ByCursor
	listener *Listener
	unacked  map[*message.Message]struct{}
}

// messageOf returns the subscriber's message of an item; nil: it came out of the parking.
func messageOf(it *lane.Item) *message.Message {
	msg, _ := it.Handle.(*message.Message)
	return msg
}

func (o *messageOrigin) Enter(it *lane.Item) (failed int, ok bool) {
	o.unacked[messageOf(it)] = struct{}{}
	return 0, true
}

// Settled acknowledges messages that were delivered or skipped; a dead message is acknowledged when its row is durable.
func (o *messageOrigin) Settled(it *lane.Item, outcome outbox.Outcome, _ error) bool {
	if msg := messageOf(it); msg != nil && outcome != outbox.OutcomeDead {
		msg.Ack()
		delete(o.unacked, msg)
		it.Handle = nil
		signal.Send(o.listener.wake)
	}
	return false
}

func (o *messageOrigin) Parked(it *lane.Item) any {
	msg := messageOf(it)
	if msg == nil {
		return nil
	}
	delete(o.unacked, msg)
	it.Handle = nil
	return msg
}

func (o *messageOrigin) Durable(acks []any, lost bool) {
	for _, a := range acks {
		msg := a.(*message.Message) //nolint:forcetypeassert // Parked returned it
		if lost {
			msg.Nack()
			continue
		}
		msg.Ack()
	}
}

func (o *messageOrigin) Release() {
	for msg := range o.unacked {
		msg.Nack()
	}
	clear(o.unacked)
}

// accept gives the message to its lane, waiting for room; false if the lane did not take it.
func (l *Listener) accept(ctx, subscribed context.Context, msg *message.Message) bool {
	row := l.rowOf(msg)
	if !l.Route.Match(row) {
		l.Route.CountSkipped("unmatched")
		msg.Ack()
		return true
	}
	target := l.Route.Lanes[adapters.SlotOf(l.Route.Key(row.Group), row.ID)]
	cost := int64(row.Size()) + l.Route.Overhead()
	for {
		if s := target.Session(); s != nil {
			room := s.Room() > 0
			if room && l.Route.Memory.Take(cost) {
				if s.AcceptOne(row, msg, cost) {
					return true
				}
				l.Route.Memory.Give(cost)
				return false
			}
			s.EvictBlocked(time.Now(), room) // with room it is memory that is spent
		} else if len(l.Route.Sessions()) == 0 {
			_ = l.GiveUp(ctx, nil) // the lanes were lost before the subscription could be ended
			return false
		}
		timer := signal.After(lane.ReleaseDelay)
		select {
		case <-l.wake:
		case <-timer.C: // the lane is not ours yet
		case <-subscribed.Done():
		case <-ctx.Done():
		}
		if timer.Stop(); subscribed.Err() != nil || ctx.Err() != nil {
			return false
		}
	}
}

// rowOf returns the message as a row, without a content that is too large.
func (l *Listener) rowOf(msg *message.Message) *adapters.Row {
	row, limit := rowOf(msg), cmp.Or(l.Cfg.MaxRow, adapters.DefaultMaxRow)
	err := row.Limit()
	if n := int64(len(msg.Payload)); n > limit {
		err = errors.Join(err, fmt.Errorf("payload: %w", adapters.PayloadTooLarge(n, limit, "have it sent again")))
	}
	metadata := 0
	for k, v := range msg.Metadata {
		metadata += len(k) + len(v)
	}
	if len(msg.Metadata) > adapters.MaxRowPairs || metadata > adapters.MaxRowMetadataBytes {
		err = errors.Join(err, fmt.Errorf("metadata: %w: it has %d keys and %d bytes, the limits are %d and %d",
			adapters.ErrTooLarge, len(msg.Metadata), metadata, adapters.MaxRowPairs, adapters.MaxRowMetadataBytes))
	}
	if err != nil {
		row.Err = fmt.Errorf("message %s: %w", shorten.To(row.ID, 128), err)
		row.Payload, row.Headers, row.Tags = nil, nil, nil
	}
	return row
}

// rowOf reads a message's metadata as the fields of a row, for matching.
func rowOf(msg *message.Message) *adapters.Row {
	m := msg.Metadata
	row := &adapters.Row{
		ID: msg.UUID, Type: m[outbox.MetaType], Group: m[outbox.MetaGroup],
		AggregateType: m[outbox.MetaAggregateType], AggregateID: m[outbox.MetaAggregateID],
		Tenant: m[outbox.MetaTenant], Headers: m, Payload: msg.Payload,
		Binary: m[outbox.MetaEncoding] == outbox.EncodingBytes,
	}
	// Fields that other systems wrote differently are left empty: they are for matching, and a message is delivered with its own metadata.
	row.Position, _ = strconv.ParseInt(m[outbox.MetaPosition], 10, 64)
	row.OccurredAt, _ = time.Parse(time.RFC3339Nano, m[outbox.MetaOccurredAt])
	if tags := m[outbox.MetaTags]; tags != "" {
		if json.Unmarshal([]byte(tags), &row.Tags) != nil {
			row.Tags = nil
		}
	}
	return row
}
