// Package fakekafka tests what the Kafka destination makes of answers that a real
// broker cannot be made to give: error codes of choice, and answers that come when
// the test says so. The cluster is franz-go's kfake, in the test's own process; no
// server is needed. Like package faults it has no code but tests, and it is here,
// not beside the adapter, because only this module may require kfake.
package fakekafka
