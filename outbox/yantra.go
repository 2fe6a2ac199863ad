package outbox

import (
	"encoding/hex"

	"github.com/oklog/ulid/v2"
)

// layoutYantra is the layout of a client for the table of Yantra's outbox processor, as the configuration calls it.
const layoutYantra = "yantra"

// yantraInsert writes into Yantra's table, as its service does: pending. The time is the server's, so that the order of an aggregate does
// not depend on the clocks of its writers.
func yantraInsert(table string) string {
	return "INSERT INTO " + table + " (id, aggregate_id, aggregate_type, event_type, payload, status, created_at)\n" +
		"SELECT id, aggregate_id, aggregate_type, type, payload, 'pending', " + rowTime + "\n" +
		"FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::jsonb[])\n" +
		"WITH ORDINALITY AS m (id, aggregate_id, aggregate_type, type, payload, ordinal) ORDER BY ordinal"
}

// yantraArgs returns the arguments of [yantraInsert].
func yantraArgs(envelopes []Envelope) []any {
	cols := make([]arrayLiteral, 5)
	for _, e := range envelopes {
		cols[0].add(uuidOf(e.id))
		cols[1].add(e.aggregateID)
		cols[2].add(e.aggregateType)
		cols[3].add(e.typ)
		cols[4].add(string(e.payload))
	}
	return texts(cols)
}

// uuidOf returns an id as the type uuid takes it: a ULID, which an envelope has by default, as its 16 bytes; any other id unchanged.
func uuidOf(id string) string {
	if u, err := ulid.ParseStrict(id); err == nil {
		return hex.EncodeToString(u[:])
	}
	return id
}

// fitsYantra refuses what Yantra's table has no place for.
func fitsYantra(e *Envelope) error {
	problems := tooLong(columnText{"type", e.typ, 50}, columnText{"aggregate type", e.aggregateType, 50}, columnText{"aggregate id", e.aggregateID, 255})
	wrong := func(field, text string) { problems = append(problems, FieldError{field, text}) }
	if !isUUID(uuidOf(e.id)) {
		wrong("id", "is neither a UUID nor a ULID, the table's column is uuid; leave ID out")
	}
	if e.aggregateID == "" || e.aggregateType == "" {
		wrong("aggregate", "is missing, the table's columns are NOT NULL; call Aggregate")
	}
	if e.group != "" && e.group != e.aggregateID {
		wrong("group", "the table has no column for it, and keeps the order of the aggregate; leave Group out and call Aggregate")
	}
	for _, f := range []struct {
		name string
		has  bool
	}{{"tenant", e.tenant != ""}, {"tags", len(e.tags) > 0}, {"headers", len(e.headers) > 0}} {
		if f.has {
			wrong(f.name, "the table has no column for it; put it into the payload")
		}
	}
	if e.binary {
		wrong("payload", "is bytes, the table's column is JSON")
	}
	return misfit(e, problems)
}

// isUUID reports whether a text is one of 32 hexadecimal digits, with or without the usual hyphens.
func isUUID(text string) bool {
	digits := make([]byte, 0, 32)
	for i := range len(text) {
		if c := text[i]; c != '-' {
			digits = append(digits, c)
		} else if len(text) != 36 || i != 8 && i != 13 && i != 18 && i != 23 {
			return false
		}
	}
	_, err := hex.DecodeString(string(digits))
	return err == nil && len(digits) == 32
}
