// Package http delivers batches of messages as one HTTP request each: a POST
// of a JSON array of the payloads (format raw) or of a CloudEvents batch.
//
// # What travels
//
// Format raw sends the array of payloads, each byte for byte, as
// application/json. The identity of a message has no place in such an array:
// it travels in headers when the batch has one message (Idempotency-Key with
// the event id, Outrider-Type, Outrider-Position, Outrider-Lane), and otherwise
// only if the payloads hold it. A receiver that wants it with every message
// asks for format cloudevents (application/cloudevents-batch+json: every
// attribute is in the event), or for one message per request. Payloads that are
// not JSON need cloudevents.
//
// # What an answer means
//
// 2xx: all were delivered. Other statuses as in [DefaultStatuses] and
// [Config.Statuses]; a status that is permanent and answers several messages is
// meant for one of them, which is found by sending halves again (unless
// [Config.Whole]). Redirects are not followed. No connection: the address is
// unavailable; a connection and no answer: the outcome is unknown, which is
// transient.
//
// Neither credentials nor the user information and the query of the URL appear
// in addresses, errors or logs.
//
// The package signs nothing and sends no single messages; package webhook does.
package http
