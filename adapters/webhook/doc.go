// Package webhook delivers each message as one signed HTTP request of its own,
// the way Standard Webhooks describes (https://www.standardwebhooks.com): a POST
// with the headers webhook-id, webhook-timestamp and webhook-signature.
//
// # What travels
//
// Format raw sends the payload byte for byte; format cloudevents a structured
// event (application/cloudevents+json), format cloudevents-binary the payload
// with the event's attributes in ce- headers. Beside them travel Idempotency-Key
// (the event id, like webhook-id), Outrider-Type, Outrider-Position and
// Outrider-Lane, and with format raw the application's traceparent and
// tracestate. Every attempt is signed with the current time and each of the secrets.
//
// # What an answer means
//
// 2xx: delivered. Other statuses as in [DefaultStatuses] and [Config.Statuses].
// Redirects are not followed. No connection: the address is unavailable; a
// connection and no answer: the outcome is unknown, which is transient.
//
// # Where requests may go
//
// To public addresses only, unless the configuration allows others. It is the
// address that is being dialled that counts, after the name was resolved, so a
// name that resolves to something else the next time gains nothing. A refused
// address is unavailable: no message is to blame. There is no proxy.
//
// Neither secrets nor the user information and the query of the URL appear in
// addresses, errors or logs.
//
// The package verifies no signatures and receives nothing; receivers have the
// libraries of Standard Webhooks for that. For batches there is package http.
package webhook
