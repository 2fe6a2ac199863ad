package outbox

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// FieldError is one problem with one field of an envelope.
type FieldError struct {
	Field   string // "type", "group", `header "x"`, "payload", ...
	Problem string // what is wrong and what to do; holds no values of the application
}

// Error returns "field: problem".
func (e FieldError) Error() string { return e.Field + ": " + e.Problem }

// EnvelopeError lists all mistakes of an envelope.
type EnvelopeError struct {
	Type   string // event type as it was given
	Fields []FieldError
}

// Error returns all problems in one line.
func (e *EnvelopeError) Error() string {
	texts := make([]string, len(e.Fields))
	for i, f := range e.Fields {
		texts[i] = f.Error()
	}
	return fmt.Sprintf("outbox: envelope of type %s cannot be published: %s", shown(e.Type), strings.Join(texts, "; "))
}

// Unwrap returns the problems, each a [FieldError].
func (e *EnvelopeError) Unwrap() []error {
	errs := make([]error, len(e.Fields))
	for i, f := range e.Fields {
		errs[i] = f
	}
	return errs
}

// shown quotes a name for an error, cut to what fits in a line.
func shown(name string) string {
	const most = 64
	if len(name) > most {
		return fmt.Sprintf("%.*q...", most, name)
	}
	return fmt.Sprintf("%q", name)
}

// checkFields checks everything but the payload. A missing id is a problem
// only when the application gave it: otherwise making one has failed before.
func checkFields(e Envelope, idGiven bool) []FieldError {
	var out []FieldError
	add := func(field, problem string) {
		if problem != "" {
			out = append(out, FieldError{field, problem})
		}
	}
	if e.typ == "" {
		add("type", `is required; name the event, for example "order.created"`)
	}
	if idGiven && e.id == "" {
		add("id", "is empty; leave ID out to get a ULID")
	}
	add("type", nameProblem(e.typ))
	add("id", nameProblem(e.id))
	add("group", nameProblem(e.group))
	add("aggregate_type", nameProblem(e.aggregateType))
	add("aggregate_id", nameProblem(e.aggregateID))
	add("tenant", nameProblem(e.tenant))
	if y := e.occurredAt.Year(); e.occurredAt.IsZero() || y < 1 || y > 9999 {
		add("occurred_at", "is the zero time or outside the years 1 to 9999; leave OccurredAt out for the time of Build")
	}
	for _, k := range slices.Sorted(maps.Keys(e.tags)) {
		add("tag "+shown(k), pairProblem(k, e.tags[k]))
	}
	for _, k := range slices.Sorted(maps.Keys(e.headers)) {
		add("header "+shown(k), pairProblem(k, e.headers[k]))
		if len(k) >= len(HeaderPrefix) && strings.EqualFold(k[:len(HeaderPrefix)], HeaderPrefix) {
			add("header "+shown(k), fmt.Sprintf("the prefix %q is Outrider's own; choose another name", HeaderPrefix))
		}
	}
	if n := max(len(e.tags), len(e.headers)); n > MaxPairs {
		add("tags and headers", fmt.Sprintf("%d of one kind, the limit is %d; move data into the payload", n, MaxPairs))
	}
	if n := pairBytes(e.tags) + pairBytes(e.headers); n > MaxMetadataBytes {
		add("tags and headers", fmt.Sprintf("hold %d bytes, the limit is %d together; move data into the payload", n, MaxMetadataBytes))
	}
	return out
}

// nameProblem checks an identifier. Control characters are refused because
// names travel as Kafka keys, HTTP headers and log fields.
func nameProblem(s string) string {
	switch {
	case len(s) > MaxNameBytes:
		return fmt.Sprintf("is %d bytes long, the limit is %d; use a shorter name", len(s), MaxNameBytes)
	case !utf8.ValidString(s):
		return "is not valid UTF-8; encode it, for example as hex"
	case strings.ContainsFunc(s, unicode.IsControl):
		return "contains a control character; remove it"
	}
	return ""
}

// pairProblem checks a tag or header. Values may hold anything that the
// database can store as text.
func pairProblem(key, value string) string {
	if key == "" {
		return "has an empty key; name it"
	}
	if p := nameProblem(key); p != "" {
		return "has a key that " + p
	}
	if !utf8.ValidString(value) {
		return "has a value that is not valid UTF-8; encode it, for example as base64"
	}
	if strings.Contains(value, "\x00") {
		return "has a value with a NUL character, which PostgreSQL cannot store; remove it"
	}
	return ""
}

func pairBytes(m map[string]string) (n int) {
	for k, v := range m {
		n += len(k) + len(v)
	}
	return n
}
