package adapters_test

import (
	"maps"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
)

func TestNewMessageCarriesTheWholeRow(t *testing.T) {
	t.Parallel()
	row := &adapters.Row{
		ID: "evt-1", Type: "order.created", Group: "customer-7", AggregateType: "order", AggregateID: "42", Tenant: "acme",
		Tags: map[string]string{"b": "2", "a": "<1>"}, Headers: map[string]string{"traceparent": "00-ab"},
		Payload: []byte("raw"), Binary: true, Position: 1<<62 + 1,
		OccurredAt: time.Date(2026, 1, 2, 3, 4, 5, 6000, time.FixedZone("", 3600)),
	}
	msg := adapters.NewMessage(row, "orders/07")
	want := message.Metadata{
		"traceparent": "00-ab", outbox.MetaType: "order.created", outbox.MetaGroup: "customer-7",
		outbox.MetaAggregateType: "order", outbox.MetaAggregateID: "42", outbox.MetaTenant: "acme",
		outbox.MetaTags: `{"a":"\u003c1\u003e","b":"2"}`, outbox.MetaOccurredAt: "2026-01-02T02:04:05.000006Z",
		outbox.MetaPosition: "4611686018427387905", outbox.MetaLane: "orders/07", outbox.MetaEncoding: outbox.EncodingBytes,
	}
	if !maps.Equal(msg.Metadata, want) {
		t.Errorf("metadata\n%v\nwant\n%v", msg.Metadata, want)
	}
	if msg.UUID != "evt-1" || string(msg.Payload) != "raw" {
		t.Errorf("message %q with payload %q", msg.UUID, msg.Payload)
	}
	if !msg.Ack() {
		t.Error("the message cannot be acked")
	}
}

func TestNewMessageLeavesOutWhatARowHasNot(t *testing.T) {
	t.Parallel()
	msg := adapters.NewMessage(&adapters.Row{ID: "1", Type: "t", Payload: []byte("{}")}, "r/00")
	want := message.Metadata{outbox.MetaType: "t", outbox.MetaPosition: "0", outbox.MetaLane: "r/00"}
	if !maps.Equal(msg.Metadata, want) {
		t.Errorf("metadata %v, want %v", msg.Metadata, want)
	}
}

// Rows written by others than our client can hold anything: a header must not
// pass for what Outrider itself says of a message.
func TestHeadersCannotPoseAsOutriders(t *testing.T) {
	t.Parallel()
	row := &adapters.Row{ID: "1", Type: "t", Headers: map[string]string{
		outbox.MetaGroup: "forged", outbox.MetaLane: "forged", outbox.HeaderPrefix + "new": "forged", "mine": "kept",
	}}
	msg := adapters.NewMessage(row, "r/00")
	want := message.Metadata{outbox.MetaType: "t", outbox.MetaPosition: "0", outbox.MetaLane: "r/00", "mine": "kept"}
	if !maps.Equal(msg.Metadata, want) {
		t.Errorf("metadata %v, want %v", msg.Metadata, want)
	}
}

func TestMessagesOfOneRowDoNotShareMetadata(t *testing.T) {
	t.Parallel()
	row := &adapters.Row{ID: "1", Type: "t", Headers: map[string]string{"k": "v"}}
	first := adapters.NewMessage(row, "a/00")
	first.Metadata.Set("k", "changed")
	if second := adapters.NewMessage(row, "b/00"); second.Metadata.Get("k") != "v" || row.Headers["k"] != "v" {
		t.Error("one route's change reached another route")
	}
}
