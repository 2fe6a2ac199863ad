package format

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]Format{"": Raw, "raw": Raw, "cloudevents": CloudEvents, "watermill": Watermill, "debezium": Debezium} {
		if got, err := Parse(name); got != want || err != nil {
			t.Errorf("Parse(%q) = %q, %v", name, got, err)
		}
	}
	if _, err := Parse("xml"); err == nil || !strings.Contains(err.Error(), "raw, cloudevents, watermill or debezium") {
		t.Errorf("Parse(xml) = %v, want an error that lists the formats", err)
	}
}

// sample is a message that has everything a row can have.
func sample(headers map[string]string) *message.Message {
	return adapters.NewMessage(&adapters.Row{
		ID: "01J", Type: "order.created", Group: "order-1", AggregateType: "order", AggregateID: "1",
		Tenant: "acme", Tags: map[string]string{"k": "v"}, Headers: headers, Position: 42,
		Payload:    []byte("{ \"n\": 1.50,\n \"s\": \"\\u00e9\" }"),
		OccurredAt: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC),
	}, "orders/07")
}

// collect fails on a header that appears twice.
func collect(t *testing.T, encode Headers, msg *message.Message) map[string]string {
	t.Helper()
	list, err := encode(nil, msg)
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]string, len(list))
	for _, h := range list {
		if _, twice := got[h.Key]; twice {
			t.Errorf("header %q appears twice", h.Key)
		}
		got[h.Key] = h.Value
	}
	return got
}

func wantHeaders(t *testing.T, got, want map[string]string) {
	t.Helper()
	if !maps.Equal(got, want) {
		t.Errorf("headers\n got %v\nwant %v", got, want)
	}
}

func TestRawHeaders(t *testing.T) {
	t.Parallel()
	msg := sample(map[string]string{"traceparent": "00-1", "id": "theirs", "type": "theirs"})
	wantHeaders(t, collect(t, RawHeaders, msg), map[string]string{
		"id": "01J", "type": "order.created", "traceparent": "00-1",
		"outrider_group": "order-1", "outrider_position": "42", "outrider_lane": "orders/07",
		"outrider_aggregate_type": "order", "outrider_aggregate_id": "1", "outrider_tenant": "acme",
		"outrider_tags": `{"k":"v"}`, "outrider_occurred_at": "2026-01-02T03:04:05.000000006Z",
	})
	foreign := message.NewMessage("u", nil) // no metadata at all
	wantHeaders(t, collect(t, RawHeaders, foreign), map[string]string{"id": "u"})
}

func TestWatermillHeaders(t *testing.T) {
	t.Parallel()
	encode := WatermillHeaders("_uuid")
	msg := sample(map[string]string{"id": "theirs"})
	want := maps.Clone(map[string]string(msg.Metadata))
	want["_uuid"] = "01J"
	wantHeaders(t, collect(t, encode, msg), want)

	msg.Metadata["_uuid"] = "x"
	if _, err := encode(nil, msg); outbox.KindOf(err) != outbox.KindPermanent || !strings.Contains(err.Error(), "01J") {
		t.Errorf("metadata that uses the key of the id: %v, want a permanent error that names the message", err)
	}
}

func TestCloudEventHeaders(t *testing.T) {
	t.Parallel()
	encode := CloudEventHeaders("/shop", "ce_")
	msg := sample(map[string]string{"traceparent": "00-1", "ce_id": "theirs", "ce_source": "theirs", "ce_own": "kept"})
	want := map[string]string{
		"ce_specversion": "1.0", "ce_id": "01J", "ce_source": "/shop", "ce_type": "order.created",
		"ce_subject": "1", "ce_time": "2026-01-02T03:04:05.000000006Z", "ce_partitionkey": "order-1",
		"ce_outriderposition": "42", "ce_outriderlane": "orders/07", "ce_outrideraggregatetype": "order",
		"ce_outridertenant": "acme", "ce_outridertags": `{"k":"v"}`, "content-type": "application/json",
		"traceparent": "00-1", "ce_own": "kept",
	}
	wantHeaders(t, collect(t, encode, msg), want)

	msg.Metadata[outbox.MetaEncoding] = outbox.EncodingBytes
	want["content-type"] = "application/octet-stream"
	wantHeaders(t, collect(t, encode, msg), want)

	msg.Metadata["Content-Type"] = "application/avro"
	want["content-type"] = "application/avro"
	wantHeaders(t, collect(t, encode, msg), want)
}

func TestCloudEventNeedsIDAndType(t *testing.T) {
	t.Parallel()
	noID, noType := sample(nil), sample(nil)
	noID.UUID = ""
	delete(noType.Metadata, outbox.MetaType)
	for _, msg := range []*message.Message{noID, noType} {
		if _, err := CloudEventHeaders("/s", "ce_")(nil, msg); outbox.KindOf(err) != outbox.KindPermanent {
			t.Errorf("binary mode: %v, want a permanent error", err)
		}
		if got, err := AppendCloudEvent([]byte("x"), "/s", msg); outbox.KindOf(err) != outbox.KindPermanent || string(got) != "x" {
			t.Errorf("structured mode: %q, %v, want a permanent error and nothing appended", got, err)
		}
	}
}

func TestAppendCloudEvent(t *testing.T) {
	t.Parallel()
	msg := sample(map[string]string{"traceparent": "00-1", "X-Odd": "a\"b\\\n\x01é\xff", "id": "theirs"})
	got, err := AppendCloudEvent([]byte("["), "/shop", msg)
	if err != nil {
		t.Fatal(err)
	}
	const want = `[{"specversion":"1.0","id":"01J","source":"/shop","type":"order.created","subject":"1",` +
		`"time":"2026-01-02T03:04:05.000000006Z","partitionkey":"order-1","outriderposition":"42",` +
		`"outriderlane":"orders/07","outrideraggregatetype":"order","outridertenant":"acme",` +
		`"outridertags":"{\"k\":\"v\"}","datacontenttype":"application/json",` +
		`"traceparent":"00-1","outriderheaders":`
	if !strings.HasPrefix(string(got), want) {
		t.Errorf("\n got %s\nwant %s...", got, want)
	}
	if !strings.HasSuffix(string(got), `,"data":`+string(msg.Payload)+`}`) {
		t.Errorf("the payload is not embedded byte for byte: %s", got)
	}
	var event, rest map[string]any
	if err := json.Unmarshal(got[1:], &event); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(event["outriderheaders"].(string)), &rest); err != nil {
		t.Fatal(err)
	}
	if rest["X-Odd"] != "a\"b\\\n\x01é\ufffd" || rest["id"] != "theirs" {
		t.Errorf("headers that are no attribute names: %q", rest)
	}
	for name := range event {
		if name != "data" && !isAttributeName(name) {
			t.Errorf("%q is not an attribute name", name)
		}
	}
}

func TestAppendCloudEventBytes(t *testing.T) {
	t.Parallel()
	msg := adapters.NewMessage(&adapters.Row{ID: "1", Type: "t", Payload: []byte{0, 0xff, '"'}, Binary: true}, "r/00")
	got, err := AppendCloudEvent(nil, "/s", msg)
	if err != nil {
		t.Fatal(err)
	}
	var event struct {
		Data []byte `json:"data_base64"`
		Type string `json:"datacontenttype"`
	}
	if err := json.Unmarshal(got, &event); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(event.Data, msg.Payload) || event.Type != "application/octet-stream" {
		t.Errorf("data_base64 %s of type %q", base64.StdEncoding.EncodeToString(event.Data), event.Type)
	}
}

func TestJSON(t *testing.T) {
	t.Parallel()
	msg := sample(nil)
	if got, err := JSON(msg); err != nil || !slices.Equal(got, msg.Payload) {
		t.Errorf("JSON = %s, %v", got, err)
	}
	msg.Payload = []byte(`{"a":`)
	if _, err := JSON(msg); outbox.KindOf(err) != outbox.KindPermanent {
		t.Errorf("broken JSON: %v, want a permanent error", err)
	}
	if got, err := AppendCloudEvent([]byte("["), "/s", msg); outbox.KindOf(err) != outbox.KindPermanent || string(got) != "[" {
		t.Errorf("broken JSON: %q, %v, want a permanent error and nothing appended", got, err)
	}
	msg.Metadata[outbox.MetaEncoding] = outbox.EncodingBytes
	if _, err := JSON(msg); outbox.KindOf(err) != outbox.KindPermanent || !strings.Contains(err.Error(), "cloudevents") {
		t.Errorf("bytes: %v, want a permanent error that names a format that can", err)
	}
}

func FuzzAppendString(f *testing.F) {
	f.Add("plain")
	f.Add("q\"b\\n\n\x00\x1f\u2028é\xff")
	f.Fuzz(func(t *testing.T, s string) {
		var back string
		if err := json.Unmarshal(appendString(nil, s), &back); err != nil {
			t.Fatalf("%q: %v", s, err)
		}
		if want := strings.ToValidUTF8(s, "\ufffd"); back != want {
			t.Errorf("%q comes back as %q", want, back)
		}
	})
}

func BenchmarkHeaders(b *testing.B) {
	msg := sample(map[string]string{"traceparent": "00-1"})
	for name, encode := range map[string]Headers{
		"raw": RawHeaders, "watermill": WatermillHeaders("_uuid"), "cloudevents": CloudEventHeaders("/s", "ce_"),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var dst []Header
			for b.Loop() {
				dst, _ = encode(dst[:0], msg)
			}
		})
	}
}
