package kafka

import (
	"context"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Check implements [outbox.Checker]: a broker must answer, and a topic that is
// the same for all messages must exist.
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
	if d.address.Static() {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = &d.cfg.Topic
		req.Topics = append(req.Topics, topic)
	}
	resp, err := req.RequestWith(ctx, c.Client)
	if err != nil {
		return fmt.Errorf("kafka: no broker of %s answers: check the addresses, TLS and SASL: %w",
			strings.Join(d.cfg.Brokers, ", "), c.watch.explain(err))
	}
	for _, topic := range resp.Topics {
		if err := kerr.ErrorForCode(topic.ErrorCode); err != nil {
			return unavailable(d.cfg.Topic, err)
		}
	}
	return nil
}
