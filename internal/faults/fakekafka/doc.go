// Package fakekafka tests how the Kafka destination handles answers that a real
// broker does not give on demand: chosen error codes, and answers at chosen times.
// The cluster is franz-go's kfake, in the test's own process; no server is needed.
// Like package faults it has no code but tests. It is here, not next to the adapter,
// because only this module may require kfake.
package fakekafka
