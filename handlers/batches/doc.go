// Package batches makes a destination of a publisher of the program that takes batches: a type with the three methods of
// [Publisher]. Give it to a relay with outrider.WithPublisher.
//
//	type kafkaPublisher struct{ client *Client }
//
//	func (*kafkaPublisher) Name() string      { return "KafkaPublisher" }
//	func (p *kafkaPublisher) IsHealthy() bool { return p.client.Connected() }
//	func (p *kafkaPublisher) PublishBatch(ctx context.Context, events []outbox.Envelope) error {
//		return p.client.Send(ctx, events)
//	}
//
// A destination that knows the outcome of each message of a batch implements adapters.Destination instead.
package batches
