// Package kafka delivers messages to Apache Kafka (and what speaks its
// protocol) with franz-go: batched, idempotent, acknowledged by all in-sync
// replicas, keyed by the message group.
//
// # Waves
//
// A [Destination] sends whole waves: every record of a batch is buffered before
// the first byte leaves, then all are sent, and Deliver returns when every
// outcome is known. Each wave has a client to itself while it lasts. Both are
// what order rests on: when a broker rejects one record, franz-go fails
// everything that is buffered for the partition at that moment, innocent
// records too, and whatever is produced a moment later is sent and overtakes
// them. With nothing produced during a wave there is no such moment, and with a
// client to itself no wave is failed by the record of another. Clients are kept
// and reused; [Config.Clients] bounds them.
//
// A broker does not say which record of a batch it rejects. Deliver
// finds it by sending halves again, within the same call: the culprit gets its
// error, the records before it and of other partitions are delivered, and what follows it in
// its group comes back released.
//
// A wave that is cancelled or not answered in time costs its client: closing
// it is the one way to be sure that nothing is sent any more. The outcome of
// what was in flight is then unknown.
//
// # Exclusive
//
// With [Config.Exclusive] each session of a lane delivers through a fenced producer of its
// own ([Destination.Fence]): a client with the lane's transactional id, which
// shuts the former owner out, and each wave a transaction. Nothing is sent
// together with other lanes. When one record of a transaction fails all of them
// do, so the bisection for a culprit is over the whole wave. A client ends, too, at an error that it cannot
// recover from; the next one checks that the lane is still its own.
// docs/exclusive.md describes when to use this and what it costs.
//
// # Formats
//
// The record's key is the message group (none: no key) and its value the
// payload. Headers are those of package format: "id", "type" and the metadata
// (raw), "ce_" attributes and "content-type" (cloudevents), or what
// watermill-kafka writes and reads (watermill). No delivery creates a topic.
//
// The package has no consumer. It keeps no order between concurrent calls of
// Deliver; package router makes no two for one group.
package kafka
