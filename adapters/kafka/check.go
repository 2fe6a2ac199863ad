package kafka

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Check implements [adapters.Checker]: a broker must answer, a topic that is the same
// for all messages must exist, and there must be a producer id; for an exclusive
// destination a transactional one.
func (d *Destination) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, d.cfg.Timeout)
	defer cancel()
	c, err := d.pool.get(ctx)
	if err != nil {
		return err
	}
	defer d.pool.put(c)

	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{} // none, where nil means all
	if d.topics.Static() {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = &d.cfg.Topic
		req.Topics = append(req.Topics, topic)
	}
	var resp *kmsg.MetadataResponse
	err = c.guarded(ctx, func(ctx context.Context) (err error) {
		resp, err = req.RequestWith(ctx, c.Client)
		return err
	})
	if a, ok := errors.AsType[*away](err); ok {
		return fmt.Errorf("kafka: %w; start the brokers, or correct their addresses", a)
	}
	if err != nil {
		return fmt.Errorf("kafka: no broker of %s answers: %w; check the addresses, TLS and SASL",
			strings.Join(d.cfg.Brokers, ", "), c.watch.explain(err))
	}
	for _, topic := range resp.Topics {
		if err := kerr.ErrorForCode(topic.ErrorCode); err != nil {
			return unavailable(d.cfg.Topic, err)
		}
	}
	if d.cfg.Exclusive {
		return d.checkTransactions(ctx)
	}
	// The first wave has this client, and need not wait for its id.
	if _, _, err := c.ProducerID(ctx); err != nil {
		c.refused = true
		return unavailable(d.cfg.Topic, c.watch.explain(err))
	}
	return nil
}

// checkTransactions initialises an id that no lane has.
func (d *Destination) checkTransactions(ctx context.Context) error {
	id := d.transactionalID("check")
	c, err := d.openFor(id)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, _, err := c.ProducerID(ctx); err != nil {
		return d.notInitialised(id, c.watch.explain(err))
	}
	if !d.cfg.Once || !d.topics.Static() {
		return nil
	}
	if err := c.tryNotes(ctx, d.cfg.Topic); err != nil {
		return unavailable(d.cfg.Topic, notNoted(id, d.cfg.Topic, c.watch.explain(err)))
	}
	return nil
}
