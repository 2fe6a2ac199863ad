package outbox

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"time"
)

// sqliteInsert is the statement for SQLite. Its one parameter is a JSON array of
// [sqliteRow], so it writes any number of rows as one statement: all or none.
// Rows get their positions in the order in which the SELECT yields them.
func sqliteInsert(table string) string {
	return "INSERT INTO " + table + " (id, type, message_group, aggregate_type, aggregate_id, tenant_id, " +
		"tags, headers, payload, payload_bytes, occurred_at, created_at)\n" +
		"SELECT value->>'id', value->>'type', value->>'group', value->>'aggregate_type', value->>'aggregate_id', value->>'tenant', " +
		"value->>'tags', value->>'headers', value->>'payload', unhex(value->>'hex'), value->>'occurred_at', " +
		"strftime('%Y-%m-%dT%H:%M:%fZ', 'now')\n" +
		"FROM json_each(?1)\n" +
		"ORDER BY key"
}

// sqliteRow is one row on its way through JSON. What is absent is written as
// NULL. Payload, tags and headers are text there, so that SQLite hands them on
// as they are instead of rewriting them.
type sqliteRow struct {
	ID            string  `json:"id"`
	Type          string  `json:"type"`
	Group         string  `json:"group,omitempty"`
	AggregateType string  `json:"aggregate_type,omitempty"`
	AggregateID   string  `json:"aggregate_id,omitempty"`
	Tenant        string  `json:"tenant,omitempty"`
	Tags          string  `json:"tags,omitempty"`
	Headers       string  `json:"headers,omitempty"`
	Payload       *string `json:"payload,omitempty"`
	Hex           *string `json:"hex,omitempty"` // payload_bytes
	OccurredAt    string  `json:"occurred_at"`
}

func sqliteArgs(envelopes []Envelope) []any { return sqliteDocument(sqliteRows(envelopes)) }

func sqliteRows(envelopes []Envelope) []sqliteRow {
	rows := make([]sqliteRow, len(envelopes))
	for i, e := range envelopes {
		rows[i] = sqliteRow{
			ID: e.id, Type: e.typ, Group: e.group,
			AggregateType: e.aggregateType, AggregateID: e.aggregateID, Tenant: e.tenant,
			Tags: encodeMap(e.tags), Headers: encodeMap(e.headers),
			OccurredAt: e.occurredAt.Format(time.RFC3339Nano),
		}
		if e.binary {
			text := hex.EncodeToString(e.payload)
			rows[i].Hex = &text
		} else {
			text := string(e.payload)
			rows[i].Payload = &text
		}
	}
	return rows
}

// sqliteDocument are rows as the parameter of the statements.
func sqliteDocument(rows []sqliteRow) []any {
	var doc bytes.Buffer
	enc := json.NewEncoder(&doc)
	enc.SetEscapeHTML(false) // for size only: SQLite undoes every escape
	_ = enc.Encode(rows)     // structs of strings cannot fail to encode
	return []any{doc.String()}
}
