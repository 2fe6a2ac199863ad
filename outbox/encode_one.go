package outbox

import "encoding/hex"

// postgresInsertOne is the statement for a single message, as most
// transactions publish: the arrays of [postgresInsert] cost a fifth of the
// throughput of a transaction that does nothing else. Parameters are text, like
// those, so that every driver sends them alike.
func postgresInsertOne(table string) string {
	return "INSERT INTO " + table + " (" + insertColumns + ")\n" +
		"VALUES ($1::text, $2::text, $3::text, $4::text, $5::text, $6::text, " +
		"$7::text::json, $8::text::json, $9::text::json, $10::text::bytea, $11::text::timestamptz)"
}

// postgresArgsOne returns the statement's arguments: strings, and nil for NULL.
func postgresArgsOne(e *Envelope) []any {
	args := []any{
		e.id, e.typ, textOrNull(e.group), textOrNull(e.aggregateType), textOrNull(e.aggregateID), textOrNull(e.tenant),
		textOrNull(encodeMap(e.tags)), textOrNull(encodeMap(e.headers)), nil, nil, textOrNull(timeText(e.occurredAt)),
	}
	if e.binary {
		args[9] = `\x` + hex.EncodeToString(e.payload)
	} else {
		args[8] = string(e.payload)
	}
	return args
}

func textOrNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}
