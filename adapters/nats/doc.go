// Package nats delivers messages to NATS JetStream: a wave is one atomic batch of at most 1,000 messages, stored whole or not at all,
// and Nats-Msg-Id has the lane, the subject and the event id.
//
// # Waves
//
// A stream with allow_atomic (NATS 2.12) takes a wave as one batch, and acknowledges it once. A batch with an id that the stream has
// stored within its duplicate window is refused whole; then the messages are sent one by one, and the acknowledgement of a duplicate
// counts as delivered. The same happens after any other refusal, which finds the message that it is about. A stream without atomic batches takes all waves one by
// one: groups at the same time, a group's next message after the acknowledgement of the one before. Asynchronous publishing without
// batches would let a message overtake one that is refused, so it is not used.
//
// # Unknown outcomes
//
// Messages that are not acknowledged in time, or whose connection was lost, may have been stored. They come back as
// [outbox.KindUnavailable] and are sent again with the same ids, in whatever batch: within the stream's duplicate window none is
// stored twice and none overtakes another. After the window a message can be there twice. Nothing is buffered while there is no
// connection, so a batch that was given up is not sent later.
package nats
