package format

import (
	"slices"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
)

// The values are those that Debezium writes; internal/faults compares them with the real one.
func TestDebeziumExpands(t *testing.T) {
	t.Parallel()
	for payload, want := range map[string]string{
		`{"b": 1, "a": 1.50, "n": null, "e": [], "o": {}}`:                `{"b":1,"a":1.5,"o":{}}`,
		`{"x": [1, null, 2], "big": 12345678901, "huge": 1e10}`:           `{"x":[1,null,2],"big":12345678901,"huge":1.0E10}`,
		`{"small": 0.0001, "neg": -0.0, "m": 12345678.9, "j": 9999999.5}`: `{"small":1.0E-4,"neg":-0.0,"m":1.23456789E7,"j":9999999.5}`,
		`{"k": 1e6, "zero": -0}`:                                          `{"k":1000000.0,"zero":0}`,
		`{"l": [{"a": 1}, {"b": "x"}]}`:                                   `{"l":[{"a":1,"b":null},{"a":null,"b":"x"}]}`,
		`{"q": [[1,2],[3]], "r": [[{"a": 1}],[{"b": 2}]]}`:                `{"q":[[1,2],[3]],"r":[[{"a":1}],[{"a":null}]]}`,
		`{"s": "é\u2028\"\\ \u001f\n\t/ 😀 \u007f", "t": true}`:            "{\"s\":\"é\u2028\\\"\\\\ \\u001F\\n\\t/ \\uD83D\\uDE00 \u007f\",\"t\":true}",
		`{"d": 1, "d": 2, "c": 3}`:                                        `{"d":2,"c":3}`,
		`{"aa": {"n": null, "k": {"v": [true,false]}}}`:                   `{"aa":{"k":{"v":[true,false]}}}`,

		// What has no type of Kafka Connect remains a string.
		`{"h": [1, "a"]}`:               `"{\"h\": [1, \"a\"]}"`,
		`{"h": [1, 1.5]}`:               `"{\"h\": [1, 1.5]}"`,
		`{"h": [1, 3000000000]}`:        `"{\"h\": [1, 3000000000]}"`,
		`{"z": [null]}`:                 `"{\"z\": [null]}"`,
		`{"l": [{"a": 1}, {"a": "x"}]}`: `"{\"l\": [{\"a\": 1}, {\"a\": \"x\"}]}"`,
		`{"a": 123456789012345678901}`:  `"{\"a\": 123456789012345678901}"`,
		`{"a": 1e400}`:                  `"{\"a\": 1e400}"`,
		`[1]`:                           `"[1]"`,
		`{"no": json`:                   `"{\"no\": json"`,
		` {"a": 1}`:                     `" {\"a\": 1}"`,
		`"text"`:                        `"\"text\""`, `5`: `"5"`, `null`: `"null"`, ``: `""`, "\xff": `"/w=="`,
	} {
		msg := message.NewMessage("1", []byte(payload))
		if got := string(DebeziumValue{Converter: DebeziumJSON, Expand: true}.Payload(msg)); got != want {
			t.Errorf("%s\n  becomes %s\n  want    %s", payload, got, want)
		}
	}
}

func TestDebeziumConverts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		value   DebeziumValue
		payload []byte
		want    string // <none>: nil
	}{
		{DebeziumValue{}, []byte(`{"a": 1}`), `{"a": 1}`},
		{DebeziumValue{}, []byte{}, ""},
		{DebeziumValue{}, nil, "<none>"},
		{DebeziumValue{Tombstone: true}, []byte(" \n"), "<none>"},
		{DebeziumValue{Tombstone: true}, []byte("x"), "x"},
		{DebeziumValue{Converter: DebeziumJSON}, []byte(`{"a":"\u00e9"}`), `"{\"a\":\"\\u00e9\"}"`},
		{DebeziumValue{Converter: DebeziumJSON}, nil, "null"},
		{DebeziumValue{Converter: DebeziumJSON, Tombstone: true}, nil, "<none>"},
		{DebeziumValue{Converter: DebeziumBase64}, []byte{0, 0xff, 0x10}, `"AP8Q"`},
	} {
		msg := message.NewMessage("1", c.payload)
		got := "<none>"
		if p := c.value.Payload(msg); p != nil {
			got = string(p)
		}
		if got != c.want {
			t.Errorf("%+v of %q is %q, want %q", c.value, c.payload, got, c.want)
		}
	}
}

func TestDebeziumHeaders(t *testing.T) {
	t.Parallel()
	msg := sample(map[string]string{"traceparent": "00-1", "eventType": "created", "id": "theirs"})
	got, err := DebeziumHeaders("shop")(nil, msg)
	want := []Header{{"__debezium.context.connectorLogicalName", "shop"}, {"__debezium.context.taskId", "0"},
		{"__debezium.context.connectorName", "postgresql"}, {"id", "01J"}, {"eventType", "created"}, {"traceparent", "00-1"}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("headers %v, %v, want %v", got, err, want)
	}
	bare := adapters.NewMessage(&adapters.Row{ID: "1", Type: "t"}, "r/00")
	if got, _ := DebeziumHeaders("shop")(nil, bare); len(got) != len(want)-2 {
		t.Errorf("a row without headers has %v", got)
	}
}
