package outbox

// Metadata keys of a message on a route. The message's UUID is the event id.
// The application's own headers keep their names; publishing refuses names that
// begin with [HeaderPrefix], so the two cannot collide.
const (
	// HeaderPrefix begins every metadata key that Outrider sets.
	HeaderPrefix = "outrider_"

	MetaType          = HeaderPrefix + "type"           // event type, for example "order.created"
	MetaKind          = HeaderPrefix + "kind"           // kind of the row's table; absent when the source has one kind only
	MetaGroup         = HeaderPrefix + "group"          // message group; absent: no order wanted
	MetaAggregateType = HeaderPrefix + "aggregate_type" // absent when empty
	MetaAggregateID   = HeaderPrefix + "aggregate_id"   // absent when empty
	MetaTenant        = HeaderPrefix + "tenant"         // absent when empty
	MetaTags          = HeaderPrefix + "tags"           // a JSON object of strings; absent when empty
	MetaOccurredAt    = HeaderPrefix + "occurred_at"    // RFC 3339 with nanoseconds, UTC
	MetaPosition      = HeaderPrefix + "position"       // decimal position in the source, to compare across redeliveries
	MetaLane          = HeaderPrefix + "lane"           // "route/slot", for example "orders/07"
	MetaEncoding      = HeaderPrefix + "encoding"       // EncodingBytes; absent: the payload is JSON
	MetaBroken        = HeaderPrefix + "broken"         // why the row cannot be decoded; such a message is never delivered

	// Additional keys of a copy of a dead message for the poison destination;
	// see [Death].
	MetaPoisonReason   = HeaderPrefix + "poison_reason"   // DeathExhausted or DeathPermanent
	MetaPoisonError    = HeaderPrefix + "poison_error"    // the last error, in one line
	MetaPoisonAttempts = HeaderPrefix + "poison_attempts" // decimal; absent when not counted
	MetaPoisonRoute    = HeaderPrefix + "poison_route"    // name of the route; outside of one, of the Watermill handler
	MetaPoisonAt       = HeaderPrefix + "poison_at"       // time of death, RFC 3339 with nanoseconds, UTC
)

// MaxPairs is the most headers, and the most tags, of one message.
const MaxPairs = 1000

// EncodingBytes is the value of [MetaEncoding] for payloads that are not JSON.
const EncodingBytes = "bytes"
