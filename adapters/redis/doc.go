// Package redis delivers to Redis Streams, and reads them by Watermill's Subscriber.
//
// [Destination] sends a batch to one stream as a transaction: MULTI, one XADD for each message, EXEC, in one write. The server stores all of it or
// nothing, so a message that is refused never leaves a gap that later messages of its group would fill, and a connection that breaks in
// the middle leaves either the whole batch or none of it. If no answer comes, the batch has an unknown outcome: it is sent again and may be in the
// stream twice.
//
// A connection has one batch in flight and is closed when its delivery fails or is called off. The client never sends anything a second time by
// itself.
//
// Anything that keeps the stream from being written to is an outage of the address: the messages wait. Only a message that Redis can never store is
// permanently refused.
package redis
