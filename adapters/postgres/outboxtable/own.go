package outboxtable

import (
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/outbox"
)

// Columns of Outrider's own table: those that publishing writes, and those among them whose values are the message's.
var (
	ownColumns = []string{"id", "type", "message_group", "aggregate_type", "aggregate_id", "tenant_id", "tags", "headers", "payload", "payload_bytes", "occurred_at"}
	ownKnown   = []string{"type", "message_group", "aggregate_type", "aggregate_id", "tenant_id"}
)

// ownWriter writes Outrider's own table with the client that applications publish with.
type ownWriter struct {
	client   *outbox.Client
	conflict string
}

func newOwnWriter(table pgx.Identifier, conflict string) (*ownWriter, error) {
	client, err := outbox.NewClient(outbox.ClientConfig{Table: strings.Join(table, ".")})
	return &ownWriter{client, conflict}, err
}

func (w *ownWriter) columns() []string { return ownColumns }

func (w *ownWriter) statement(records []*record, errs []error) (text string, args []any, ok bool) {
	envelopes := make([]outbox.Envelope, len(records))
	ok = true
	for i, r := range records {
		var err error
		if envelopes[i], err = outbox.EnvelopeOf(r.msg); err != nil {
			errs[r.index], ok = outbox.Permanent(err), false
		}
	}
	if !ok {
		return "", nil, false
	}
	text, args, err := w.client.InsertQuery(envelopes...)
	if err != nil { // a message without a type
		for _, r := range records {
			errs[r.index] = outbox.Permanent(err)
		}
		return "", nil, false
	}
	return text + w.conflict, args, true
}
