package outbox

import (
	"bytes"
	"encoding/json"
	"maps"
	"time"
)

// Builder collects the parts of an [Envelope]. Its methods return the Builder
// itself and never fail; Build reports all mistakes. A value that is set twice
// keeps the last one, except the payload, which may be set once. A Builder is
// for one goroutine.
type Builder struct {
	env       Envelope
	idGiven   bool
	timeGiven bool
	payloads  int   // how often the payload was set
	encodeErr error // why JSON could not encode its value
}

// New begins an envelope with its event type, for example "order.created". A
// payload is also required: one of JSON, RawJSON and Bytes.
func New(eventType string) *Builder {
	return &Builder{env: Envelope{typ: eventType}}
}

// ID sets the event id, for an application that has one already. Default: a
// ULID, greater than all that this process made before.
func (b *Builder) ID(id string) *Builder {
	b.env.id, b.idGiven = id, true
	return b
}

// Group sets the key whose order is kept, for example "customer-7". Default,
// and "": no order.
func (b *Builder) Group(group string) *Builder {
	b.env.group = group
	return b
}

// Aggregate sets type and id of the aggregate that the event is about, for
// example "order" and "42". It does not set the group. Either may be empty.
func (b *Builder) Aggregate(aggregateType, id string) *Builder {
	b.env.aggregateType, b.env.aggregateID = aggregateType, id
	return b
}

// Tenant sets the tenant. Default, and "": none.
func (b *Builder) Tenant(tenant string) *Builder {
	b.env.tenant = tenant
	return b
}

// Tag adds a tag: routes match on tags, receivers get them together as one
// JSON object.
func (b *Builder) Tag(key, value string) *Builder {
	if b.env.tags == nil {
		b.env.tags = make(map[string]string)
	}
	b.env.tags[key] = value
	return b
}

// Header adds a header, which reaches receivers under its own name. The key
// must not begin with [HeaderPrefix], in upper or lower case.
func (b *Builder) Header(key, value string) *Builder {
	if b.env.headers == nil {
		b.env.headers = make(map[string]string)
	}
	b.env.headers[key] = value
	return b
}

// OccurredAt sets when the event happened; it is kept in UTC and cut to whole
// microseconds, which is what PostgreSQL stores. Default: the time of Build.
func (b *Builder) OccurredAt(t time.Time) *Builder {
	b.env.occurredAt, b.timeGiven = t, true
	return b
}

// JSON sets the payload to the result of [json.Marshal] for the value at the
// time of the call.
func (b *Builder) JSON(value any) *Builder {
	raw, err := json.Marshal(value)
	b.encodeErr = err
	return b.setPayload(raw, false)
}

// RawJSON sets the payload to JSON text, which is stored and delivered byte for
// byte. It must pass [CheckJSON].
func (b *Builder) RawJSON(raw []byte) *Builder {
	return b.setPayload(bytes.Clone(raw), false)
}

// Bytes sets the payload to bytes that are not JSON; they may be empty.
func (b *Builder) Bytes(raw []byte) *Builder {
	return b.setPayload(append([]byte{}, raw...), true)
}

func (b *Builder) setPayload(raw []byte, binary bool) *Builder {
	b.payloads++
	b.env.payload, b.env.binary = raw, binary
	return b
}

// Build returns the envelope, or an [*EnvelopeError] that lists every problem
// with the name of its field. The Builder can be used further; each Build
// without an ID makes an id of its own.
func (b *Builder) Build() (Envelope, error) {
	e := b.env
	var problems []FieldError
	if !b.idGiven {
		id, err := ids.next()
		if err != nil {
			problems = append(problems, FieldError{"id", "no ULID could be made: " + err.Error()})
		}
		e.id = id
	}
	if !b.timeGiven {
		e.occurredAt = time.Now()
	}
	e.occurredAt = e.occurredAt.UTC().Truncate(time.Microsecond)
	e.tags, e.headers = maps.Clone(e.tags), maps.Clone(e.headers)

	problems = append(problems, checkFields(e, b.idGiven)...)
	if err := b.checkPayload(); err != nil {
		problems = append(problems, FieldError{"payload", err.Error()})
	}
	if len(problems) > 0 {
		return Envelope{}, &EnvelopeError{Type: e.typ, Fields: problems}
	}
	return e, nil
}
