package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/outriderhq/outrider/adapters"
)

var _ adapters.TopicCreator = (*Destination)(nil)

// brokersChoice has the brokers choose a number.
const brokersChoice = -1

// CreateTopic implements [adapters.TopicCreator].
func (d *Destination) CreateTopic(ctx context.Context, t adapters.NewTopic) (bool, error) {
	if err := d.topics.Produces(t.Name); err != nil {
		return false, fmt.Errorf("kafka: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, d.cfg.Timeout)
	defer cancel()
	c, err := d.pool.get(ctx)
	if err != nil {
		return false, err
	}
	defer d.pool.put(c)
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = t.Name, brokersChoice, brokersChoice
	if t.Partitions > 0 {
		topic.NumPartitions = int32(t.Partitions)
	}
	if t.Replicas > 0 {
		topic.ReplicationFactor = int16(t.Replicas)
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Topics, req.ValidateOnly, req.TimeoutMillis = []kmsg.CreateTopicsRequestTopic{topic}, t.DryRun, int32(d.cfg.Timeout.Milliseconds())
	var resp *kmsg.CreateTopicsResponse
	err = c.guarded(ctx, func(ctx context.Context) (err error) {
		resp, err = req.RequestWith(ctx, c.Client)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("kafka: topic %q cannot be created: %w", t.Name, c.watch.explain(err))
	}
	if len(resp.Topics) != 1 {
		return false, fmt.Errorf("kafka: topic %q cannot be created: the broker said nothing of it", t.Name)
	}
	err = kerr.ErrorForCode(resp.Topics[0].ErrorCode)
	if err == nil || errors.Is(err, kerr.TopicAlreadyExists) {
		return err == nil, nil
	}
	return false, notCreated(t.Name, err, resp.Topics[0].ErrorMessage)
}

// notCreated says why a broker creates no topic.
func notCreated(topic string, err error, why *string) error {
	switch {
	case errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.ClusterAuthorizationFailed):
		return fmt.Errorf("kafka: no permission to create topic %q: grant CREATE on it or on the cluster, or create it by another user: %w", topic, err)
	case why != nil && *why != "":
		return fmt.Errorf("kafka: topic %q cannot be created: %s: %w", topic, *why, err)
	}
	return fmt.Errorf("kafka: topic %q cannot be created: %w", topic, err)
}
