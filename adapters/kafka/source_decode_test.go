package kafka

import (
	"errors"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox/format"
)

func TestARecordBecomesARowByItsFormat(t *testing.T) {
	headers := func(pairs ...string) (out []kgo.RecordHeader) {
		for i := 0; i < len(pairs); i += 2 {
			out = append(out, kgo.RecordHeader{Key: pairs[i], Value: []byte(pairs[i+1])})
		}
		return out
	}
	for name, c := range map[string]struct {
		decoding           Decoding
		rec                kgo.Record
		id, kind, group    string
		payload, traced    string
		binary, dead, huge bool
		undecoded          bool
	}{
		"raw":                        {rec: kgo.Record{Value: []byte(`{}`), Headers: headers("traceparent", "00-a")}, id: "orders/2/7", kind: "orders", group: "k", payload: "{}", traced: "00-a"},
		"raw, headers":               {decoding: Decoding{IDHeader: "eid", GroupHeader: "g"}, rec: kgo.Record{Value: []byte("x"), Headers: headers("eid", "e-1", "g", "g-1", "type", "t")}, id: "e-1", kind: "t", group: "g-1", payload: "x", binary: true},
		"tombstone":                  {id: "orders/2/7", kind: "orders", group: "k", binary: true},
		"watermill":                  {decoding: Decoding{Format: format.Watermill}, rec: kgo.Record{Value: []byte(`{}`), Headers: headers("_watermill_message_uuid", "e-2", "outrider_type", "t")}, id: "e-2", kind: "t", group: "k", payload: "{}"},
		"no id":                      {decoding: Decoding{Format: format.Watermill}, rec: kgo.Record{Value: []byte(`{}`)}, id: "orders/2/7", kind: "orders", group: "k", dead: true, undecoded: true},
		"structured":                 {decoding: Decoding{Format: format.CloudEvents}, rec: kgo.Record{Value: []byte(`{"id":"e-3","type":"t","data":{"a": 1},"traceparent":"00-b"}`), Headers: headers("content-type", "application/cloudevents+json")}, id: "e-3", kind: "t", group: "k", payload: `{"a": 1}`, traced: "00-b"},
		"binary":                     {decoding: Decoding{Format: format.CloudEvents}, rec: kgo.Record{Value: []byte(`[1]`), Headers: headers("ce_id", "e-4", "ce_type", "t", "ce_partitionkey", "g-4")}, id: "e-4", kind: "t", group: "g-4", payload: "[1]"},
		"no name":                    {rec: kgo.Record{Value: []byte(`{}`), Headers: headers("", "e-5")}, id: "orders/2/7", kind: "orders", group: "k", payload: "{}"},
		"id field":                   {decoding: Decoding{IDField: "meta.id"}, rec: kgo.Record{Value: []byte(`{"meta":{"id":9007199254740993}}`), Headers: headers("id", "e-6")}, id: "9007199254740993", kind: "orders", group: "k", payload: `{"meta":{"id":9007199254740993}}`},
		"no id field":                {decoding: Decoding{IDField: "id"}, rec: kgo.Record{Value: []byte(`[1]`), Headers: headers("id", "e-6")}, id: "e-6", kind: "orders", group: "k", payload: "[1]"},
		"no event":                   {decoding: Decoding{Format: format.CloudEvents}, id: "orders/2/7", kind: "orders", group: "k", binary: true},
		"no event, structured":       {decoding: Decoding{Format: format.CloudEvents}, rec: kgo.Record{Headers: headers("content-type", "application/cloudevents+json")}, id: "orders/2/7", kind: "orders", group: "k", binary: true},
		"no message":                 {decoding: Decoding{Format: format.Watermill}, id: "orders/2/7", kind: "orders", group: "k", binary: true},
		"text":                       {decoding: Decoding{Format: format.CloudEvents}, rec: kgo.Record{Value: []byte(`{"id":"e-7","type":"t","datacontenttype":"text/plain","data":"a \"b\""}`), Headers: headers("content-type", "application/cloudevents+json")}, id: "e-7", kind: "t", group: "k", payload: `a "b"`, binary: true},
		"no JSON":                    {decoding: Decoding{Format: format.CloudEvents}, rec: kgo.Record{Value: []byte(`<a/>`), Headers: headers("content-type", "application/cloudevents+json")}, id: "orders/2/7", kind: "orders", group: "k", dead: true, undecoded: true},
		"a type for all":             {decoding: Decoding{Format: format.CloudEvents, TypeHeader: "kind", GroupHeader: "g"}, rec: kgo.Record{Value: []byte(`<a/>`), Headers: headers("content-type", "application/cloudevents+json", "kind", "t", "g", "g-8")}, id: "orders/2/7", kind: "t", group: "g-8", dead: true},
		"debezium":                   {decoding: Decoding{Format: format.Debezium}, rec: kgo.Record{Value: []byte(` {"a": 1}`), Headers: headers("id", "e-8", "type", "t")}, id: "e-8", kind: "orders", group: "k", payload: ` {"a": 1}`},
		"debezium, JSON in a string": {decoding: Decoding{Format: format.Debezium}, rec: kgo.Record{Value: []byte(`"{\"a\": 1}"`), Headers: headers("id", "e-9")}, id: "e-9", kind: "orders", group: "k", payload: `{"a": 1}`},
		"debezium, schema":           {decoding: Decoding{Format: format.Debezium, TypeHeader: "eventType"}, rec: kgo.Record{Value: []byte(`{"schema":{"type":"string"},"payload":"{\"a\": 1}"}`), Headers: headers("id", "e-9", "eventType", "t")}, id: "e-9", kind: "t", group: "k", payload: `{"a": 1}`},
		"too large":                  {decoding: Decoding{MaxRow: 3}, rec: kgo.Record{Value: []byte("1234")}, id: "orders/2/7", kind: "orders", group: "k", dead: true, huge: true},
		"too large, no type":         {decoding: Decoding{MaxRow: 3, Format: format.CloudEvents}, rec: kgo.Record{Value: []byte("1234"), Headers: headers("content-type", "application/cloudevents+json")}, id: "orders/2/7", kind: "orders", group: "k", dead: true, huge: true, undecoded: true},
	} {
		if err := c.decoding.complete(); err != nil {
			t.Fatal(err)
		}
		c.rec.Topic, c.rec.Partition, c.rec.Offset, c.rec.Key = "orders", 2, 7, []byte("k")
		row := c.decoding.row(&c.rec)
		if row.ID != c.id || row.Type != c.kind || row.Group != c.group || string(row.Payload) != c.payload || row.Headers["traceparent"] != c.traced {
			t.Errorf("%s: %+v", name, row)
		}
		if row.Undecoded != c.undecoded {
			t.Errorf("%s: undecoded %t", name, row.Undecoded)
		}
		if !c.dead && (row.Err != nil || row.Payload == nil || row.Binary != c.binary) {
			t.Errorf("%s: error %v, payload %q, binary %t", name, row.Err, row.Payload, row.Binary)
		}
		if c.dead && (row.Err == nil || !strings.Contains(row.Err.Error(), "topic orders, partition 2, offset 7") || row.Payload != nil) || c.huge && !errors.Is(row.Err, adapters.ErrTooLarge) {
			t.Errorf("%s: error %v, payload %q", name, row.Err, row.Payload)
		}
	}
}
