package logtable

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	wmsql "github.com/ThreeDotsLabs/watermill-sql/v3/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/adaptertest"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pgtest"
	"github.com/outriderhq/outrider/outbox"
)

// TestLogSourceConformanceWatermill runs the suite on a topic that a stock
// Publisher writes. What Watermill has no column for travels as our own metadata.
func TestLogSourceConformanceWatermill(t *testing.T) {
	t.Parallel()
	schema := wmsql.DefaultPostgreSQLSchema{GeneratePayloadType: func(string) string { return "BYTEA" }}
	adaptertest.Source(t, func(t *testing.T) adaptertest.SourceHarness {
		e := pgtest.New(t)
		makeTopic(e, "orders", schema)
		l := &logEnv{Env: e, cfg: Config{Layout: "watermill", Topic: "orders"}}
		l.makeIndexes()
		db := openStdlib(t, e.URL)
		return adaptertest.SourceHarness{Source: l.open(), Insert: func(t *testing.T, rows ...adapters.Row) {
			var messages []*message.Message
			for i := range rows {
				messages = append(messages, stockMessage(&rows[i]))
			}
			if err := stockPublish(context.Background(), db, schema, messages...); err != nil {
				t.Error(err)
			}
		}}
	})
}

// stockMessage is the message that a client of ours makes of a row.
func stockMessage(r *adapters.Row) *message.Message {
	msg := message.NewMessage(r.ID, r.Payload)
	for k, v := range r.Headers {
		msg.Metadata.Set(k, v)
	}
	set := func(key, value string) {
		if value != "" {
			msg.Metadata.Set(key, value)
		}
	}
	set(outbox.MetaType, r.Type)
	set(outbox.MetaGroup, r.Group)
	set(outbox.MetaAggregateType, r.AggregateType)
	set(outbox.MetaAggregateID, r.AggregateID)
	set(outbox.MetaTenant, r.Tenant)
	if len(r.Tags) > 0 {
		tags, _ := json.Marshal(r.Tags)
		set(outbox.MetaTags, string(tags))
	}
	if !r.OccurredAt.IsZero() {
		set(outbox.MetaOccurredAt, r.OccurredAt.Format(time.RFC3339Nano))
	}
	if r.Binary {
		set(outbox.MetaEncoding, outbox.EncodingBytes)
	}
	return msg
}

// TestLogSourceConformanceCustom runs the suite on a table of the application's.
func TestLogSourceConformanceCustom(t *testing.T) {
	t.Parallel()
	adaptertest.Source(t, func(t *testing.T) adaptertest.SourceHarness {
		e := pgtest.New(t)
		e.Exec(`CREATE TABLE events (
			n serial, event_id text, kind varchar(100), customer text, thing text, thing_id text, who text,
			labels jsonb, extra text, body bytea, happened timestamp, made timestamptz DEFAULT clock_timestamp())`)
		l := &logEnv{Env: e, cfg: Config{Layout: LayoutCustom, Table: "events", Columns: Columns{
			Position: "n", XID: "xid", ID: "event_id", Payload: "body", Type: "kind", Group: "customer",
			AggregateType: "thing", AggregateID: "thing_id", Tenant: "who", Headers: "extra", Tags: "labels",
			OccurredAt: "happened", CreatedAt: "made"}}}
		src := l.open()
		e.Exec(alterTableOf(t, src.Check(e.Ctx)))
		l.makeIndexes()
		return adaptertest.SourceHarness{
			Source: src,
			Insert: func(t *testing.T, rows ...adapters.Row) { insertCustom(t, e, rows) },
			InsertBroken: func(_ *testing.T, group string) {
				e.Exec("INSERT INTO events (event_id, kind, customer, body, labels) VALUES ('b', 't', $1, '1', '[1]')", group)
			},
		}
	})
}

// alterTableOf takes the statement that adds transaction ids out of an error.
func alterTableOf(t *testing.T, err error) string {
	t.Helper()
	pgtest.WantError(t, err, "ALTER TABLE", "NOT VALID")
	_, rest, _ := strings.Cut(err.Error(), "ALTER TABLE")
	statement, _, _ := strings.Cut(rest, ";")
	return "ALTER TABLE" + statement
}

func insertCustom(t *testing.T, e *pgtest.Env, rows []adapters.Row) {
	t.Helper()
	tx, err := e.Pool.Begin(context.Background())
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	for i := range rows {
		r := &rows[i]
		var happened any
		if !r.OccurredAt.IsZero() {
			happened = r.OccurredAt
		}
		_, err := tx.Exec(context.Background(), `INSERT INTO events
			(event_id, kind, customer, thing, thing_id, who, labels, extra, body, happened)
			VALUES ($1, $2, nullif($3, ''), $4, $5, $6, $7::text::jsonb, $8, $9, $10::timestamptz)`,
			r.ID, r.Type, r.Group, r.AggregateType, r.AggregateID, r.Tenant,
			jsonText(r.Tags), jsonText(r.Headers), r.Payload, happened)
		if err != nil {
			t.Error(err)
			return
		}
	}
	if err := tx.Commit(context.Background()); err != nil {
		t.Error(err)
	}
}

// jsonText is a map as JSON, null for none.
func jsonText(m map[string]string) any {
	if len(m) == 0 {
		return nil
	}
	b, _ := json.Marshal(m) // a map of strings cannot fail to encode
	return string(b)
}

// sqlStatements takes a script apart at the ends of statements, without comments.
func sqlStatements(script string) []string {
	var kept strings.Builder
	for line := range strings.Lines(script) {
		if !strings.HasPrefix(line, "--") {
			kept.WriteString(line)
		}
	}
	var out []string
	for s := range strings.SplitSeq(kept.String(), ";\n") {
		if strings.TrimSpace(s) != "" {
			out = append(out, s)
		}
	}
	return out
}

// Watermill's publisher writes NULL for a payload of nil, whose column is JSON, and
// its subscriber delivers an empty payload.
func TestG1_AStockMessageOfNilIsEmpty(t *testing.T) {
	t.Parallel()
	e := newLogEnv(t, "watermill")
	msgs := []*message.Message{message.NewMessage("1", nil), message.NewMessage("2", []byte("{}")), message.NewMessage("3", nil)}
	pgtest.Must(t, stockPublish(e.Ctx, openStdlib(t, e.URL), wmsql.DefaultPostgreSQLSchema{}, msgs...))
	start, err := e.log.Start(e.Ctx, adapters.Start{Kind: adapters.StartBeginning})
	pgtest.Must(t, err)
	reads := make([]adapters.Read, adapters.Slots)
	for slot := range reads {
		reads[slot] = adapters.Read{Slot: slot, From: start, Limit: 9}
	}
	got := map[string]*adapters.Row{}
	_, err = e.log.Fetch(e.Ctx, reads, func(_ int, r *adapters.Row) bool { got[r.ID] = r; return true })
	pgtest.Must(t, err)
	if len(got) != 3 {
		t.Fatalf("%d rows, want 3", len(got))
	}
	for id, r := range got {
		switch empty := id != "2"; {
		case r.Err != nil:
			t.Errorf("row %s: %v", id, r.Err)
		case r.Payload == nil, empty != (len(r.Payload) == 0), r.Binary != empty:
			t.Errorf("row %s: payload %#v, binary %t", id, r.Payload, r.Binary)
		}
	}
}
