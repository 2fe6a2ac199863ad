package nats

import (
	"slices"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
)

// Messages with one event id that are not the same are all stored: those of two routes, of two tables, and copies for another subject. Each is
// stored once, whoever sends it again.
func TestG1_OneStreamKeepsMessagesOfOneIDApart(t *testing.T) {
	t.Parallel()
	name, js := streamOf(t, shared.url, nil)
	of := func(lane, payload string) *message.Message {
		return adapters.NewMessage(&adapters.Row{ID: "17", Type: "t", Group: "g", Position: 10, Payload: []byte(payload)}, lane)
	}
	for _, tt := range []struct {
		subject string
		msg     *message.Message
	}{
		{name + ".billing", of("billing/03", "{}")}, {name + ".shipping", of("shipping/03", "{}")}, {name + ".shipping", of("invoices/03", "[]")},
		{name + ".poison", of("billing/03", "{}")}, {name + ".poison", of("shipping/03", "{}")},
	} {
		d := destination(t, shared.url, Config{Subject: tt.subject})
		for range 2 {
			if errs := d.Deliver(t.Context(), tt.subject, []*message.Message{tt.msg}); errs != nil {
				t.Fatal(errs)
			}
		}
		if d.Duplicates() != 1 {
			t.Errorf("%s on %s: %d duplicates, want that of the second time", tt.msg.Metadata[outbox.MetaLane], tt.subject, d.Duplicates())
		}
	}
	for subject, want := range map[string]int{"billing": 1, "shipping": 2, "poison": 2} {
		if got := ids(t, js, name+"."+subject, "g"); !slices.Equal(got, slices.Repeat([]string{"17"}, want)) {
			t.Errorf("%s has %v, want 17 %d times", subject, got, want)
		}
	}
}
