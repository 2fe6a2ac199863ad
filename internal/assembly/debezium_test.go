package assembly

import (
	"errors"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
)

// A payload that is delivered again is not converted twice.
func TestDebeziumsValueIsOfADeliveryOnly(t *testing.T) {
	t.Parallel()
	failed := errors.New("failed")
	msg := message.NewMessage("1", []byte(`{"a": null, "b": 1}`))
	deliver := debeziumValue{Converter: "json", Expand: true}.Middleware(func(msg *message.Message) ([]*message.Message, error) {
		if got := string(msg.Payload); got != `{"b":1}` {
			t.Errorf("delivered %s", got)
		}
		return nil, failed
	})
	for range 2 {
		if _, err := deliver(msg); !errors.Is(err, failed) || string(msg.Payload) != `{"a": null, "b": 1}` {
			t.Errorf("afterwards the message has %s (%v)", msg.Payload, err)
		}
	}
}
