package kafka

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/outriderhq/outrider/adapters/internal/broker"
	"github.com/outriderhq/outrider/outbox"
)

// Most records fit into the batches that every topic takes. A larger one goes alone, by a client whose batches are as large as its topic takes:
// batches of that size would have to be sent in parts to all other topics.

// mostLarge is the largest batch that brokers take whatever their topics say (socket.request.max.bytes).
const mostLarge = 99 << 20

// tooLarge is the reason for a record that does not fit into a batch.
type tooLarge struct {
	id, topic   string
	size, limit int
}

func (e *tooLarge) Error() string {
	return fmt.Sprintf("message %s is too large for Kafka: %d bytes as a record, %d allowed: raise max.message.bytes of topic %q, or send less",
		e.id, e.size, e.limit, e.topic)
}

// large are the destinations of large records, by the size of their batches.
type large struct {
	mu     sync.Mutex
	byMost map[int]*Destination
	closed bool
}

// deliverLarge delivers what turned out to be too large for usual batches, if its topic takes it and everything before it in its group was
// delivered. What is behind it was held back.
func (d *Destination) deliverLarge(ctx context.Context, topic string, batch []*message.Message, errs []error) []error {
	failed := map[string]bool{}
	for i, err := range errs {
		group := batch[i].Metadata[outbox.MetaGroup]
		if e, is := errors.AsType[*tooLarge](err); is && d.follow && !failed[group] {
			errs[i] = d.sendLarge(ctx, topic, batch[i], e)
		} else if is && failed[group] && group != "" {
			errs[i] = broker.ErrBehind
		}
		failed[group] = failed[group] || errs[i] != nil && group != ""
	}
	return errs
}

func (d *Destination) sendLarge(ctx context.Context, topic string, msg *message.Message, e *tooLarge) error {
	limit, err := d.limitOf(ctx, topic)
	switch {
	case isDenied(err):
		return outbox.Permanent(fmt.Errorf("%w, and allow DESCRIBE_CONFIGS on it, so that Outrider follows it: %w", e, err))
	case err != nil:
		return unavailable(topic, fmt.Errorf("message %s needs to know max.message.bytes of the topic: %w", e.id, err))
	case limit < e.size:
		e.limit = max(limit, e.limit)
		return outbox.Permanent(e)
	}
	to, err := d.large.of(d.cfg, limit)
	if err != nil {
		return err
	}
	if errs := to.Deliver(ctx, topic, []*message.Message{msg}); errs != nil {
		return errs[0]
	}
	return nil
}

// limitOf asks the brokers for the largest batch of a topic. Large records are rare, and the topic may be changed at any time.
func (d *Destination) limitOf(ctx context.Context, topic string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, d.cfg.Timeout)
	defer cancel()
	c, err := d.pool.get(ctx)
	if err != nil {
		return 0, err
	}
	defer d.pool.put(c)
	configs, err := kadm.NewClient(c.Client).DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return 0, err
	}
	answer, err := configs.On(topic, nil)
	if err := errors.Join(err, answer.Err); err != nil {
		return 0, err
	}
	for _, c := range answer.Configs {
		if c.Key == "max.message.bytes" {
			n, err := strconv.Atoi(c.MaybeValue())
			return min(n, mostLarge), err
		}
	}
	return 0, errors.New("the brokers do not say it")
}

// of returns the destination of records up to a size.
func (l *large) of(cfg Config, most int) (*Destination, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, errUndecided
	}
	if l.byMost[most] == nil {
		cfg.MaxMessageBytes, cfg.Clients = most, 1
		to, err := New(cfg)
		if err != nil {
			return nil, err
		}
		if l.byMost == nil {
			l.byMost = map[int]*Destination{}
		}
		l.byMost[most] = to
	}
	return l.byMost[most], nil
}

func (l *large) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for _, to := range l.byMost {
		to.pool.close()
	}
}
