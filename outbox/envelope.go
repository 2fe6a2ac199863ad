package outbox

import (
	"bytes"
	"maps"
	"time"
)

// Limits of an envelope. [Builder.Build] refuses a larger one, so that a
// message that no destination could accept fails in the publishing transaction
// and not later.
const (
	// MaxPayloadBytes is the largest payload, in bytes: 1 MiB, what a Kafka
	// broker takes by default.
	MaxPayloadBytes = 1 << 20

	// MaxNameBytes is the longest id, type, group, aggregate type, aggregate
	// id, tenant, tag key or header key, in bytes of UTF-8.
	MaxNameBytes = 255

	// MaxMetadataBytes is the most that the keys and values of all tags and
	// headers of one envelope may hold together, in bytes: 64 KiB.
	MaxMetadataBytes = 64 << 10
)

// Envelope is one message to be published. It cannot be changed after
// [Builder.Build] made it; maps and slices are copied on the way in and out.
// It may be shared between goroutines and published more than once, which
// writes several rows with one id. The zero Envelope is refused by
// [Client.Publish].
type Envelope struct {
	id            string
	typ           string
	group         string
	aggregateType string
	aggregateID   string
	tenant        string
	tags          map[string]string
	headers       map[string]string
	payload       []byte
	binary        bool
	occurredAt    time.Time
}

// ID returns the event id, by which receivers recognise duplicates.
func (e Envelope) ID() string { return e.id }

// Type returns the event type, for example "order.created".
func (e Envelope) Type() string { return e.typ }

// Group returns the key whose order is kept; empty: no order.
func (e Envelope) Group() string { return e.group }

// AggregateType returns the type of the aggregate, or "".
func (e Envelope) AggregateType() string { return e.aggregateType }

// AggregateID returns the id of the aggregate, or "".
func (e Envelope) AggregateID() string { return e.aggregateID }

// Tenant returns the tenant, or "".
func (e Envelope) Tenant() string { return e.tenant }

// Tags returns a copy of the tags, nil when there are none.
func (e Envelope) Tags() map[string]string { return maps.Clone(e.tags) }

// Headers returns a copy of the application's headers, nil when there are none.
func (e Envelope) Headers() map[string]string { return maps.Clone(e.headers) }

// OccurredAt returns when the event happened, in UTC and whole microseconds.
func (e Envelope) OccurredAt() time.Time { return e.occurredAt }

// Payload returns a copy of the payload.
func (e Envelope) Payload() []byte { return bytes.Clone(e.payload) }

// Binary reports whether the payload is bytes; otherwise it is JSON.
func (e Envelope) Binary() bool { return e.binary }
