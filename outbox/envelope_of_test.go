package outbox_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
)

type placed struct{ Total int }

const orderPlaced outbox.Type[placed] = "order.placed"

func TestEnvelopeOfAMessageIsWhatWasPublished(t *testing.T) {
	t.Parallel()
	full, err := orderPlaced.New(placed{Total: 7}).Group("g").Aggregate("order", "42").Tenant("acme").
		Tag("region", "eu").Header("trace", "1").Build()
	must(t, err)
	plain, err := outbox.New("raw").Bytes([]byte{0, 1}).Build()
	must(t, err)
	for _, want := range []outbox.Envelope{full, plain} {
		msg := adapters.NewMessage(&adapters.Row{
			ID: want.ID(), Type: want.Type(), Group: want.Group(), AggregateType: want.AggregateType(), AggregateID: want.AggregateID(),
			Tenant: want.Tenant(), Tags: want.Tags(), Headers: want.Headers(), OccurredAt: want.OccurredAt(), Payload: want.Payload(), Binary: want.Binary(),
		}, "r/00")
		got, err := outbox.EnvelopeOf(msg)
		must(t, err)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
}

func TestEnvelopeOfDamagedMetadata(t *testing.T) {
	t.Parallel()
	for key, value := range map[string]string{outbox.MetaTags: "[]", outbox.MetaOccurredAt: "today"} {
		msg := message.NewMessage("1", nil)
		msg.Metadata[key] = value
		if _, err := outbox.EnvelopeOf(msg); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", key, err)
		}
	}
}
