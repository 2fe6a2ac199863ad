package kafka

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/tidwall/gjson"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/outbox/format"
)

// Decoding says how a record becomes a row.
type Decoding struct {
	// Format is what the records are written in. Default: [format.Raw]. Of format.CloudEvents the content type says whether a record is in
	// structured or in binary mode.
	Format format.Format

	IDHeader, TypeHeader, GroupHeader string // headers that have id, type and group instead; empty: as the format says, and the key

	IDField string // path of the event id in values that are JSON, see gjson; empty: none

	SkipTombstones bool  // pass over records without a value
	MaxRow         int64 // largest value in bytes; 0: [adapters.DefaultMaxRow]
}

// HeaderTombstone is a header of messages whose record had no value.
const HeaderTombstone = "kafka_tombstone"

func (d *Decoding) complete() error {
	setDefault(&d.Format, format.Raw)
	d.MaxRow = cmp.Or(d.MaxRow, adapters.DefaultMaxRow)
	_, err := format.Parse(string(d.Format))
	return err
}

// row decodes a record. One that cannot be decoded is a row with an error that names its place.
func (d *Decoding) row(rec *kgo.Record) *adapters.Row {
	place := fmt.Sprintf("%s/%d/%d", rec.Topic, rec.Partition, rec.Offset)
	row := &adapters.Row{ID: place, Type: rec.Topic, Group: text(rec.Key), Slot: int(rec.Partition), Position: rec.Offset, CreatedAt: rec.Timestamp, Headers: map[string]string{}}
	for _, h := range rec.Headers {
		if _, twice := row.Headers[h.Key]; !twice { // the first one counts
			row.Headers[h.Key] = text(h.Value)
		}
	}
	named := func(header string) string {
		if header == "" { // which is the name of a header, too
			return ""
		}
		return row.Headers[header]
	}
	id, kind, group := named(d.IDHeader), named(d.TypeHeader), named(d.GroupHeader) // before the format removes its own
	err := d.payload(row, rec)
	row.ID, row.Type, row.Group = cmp.Or(id, d.idField(row), row.ID), cmp.Or(kind, row.Type), cmp.Or(group, row.Group)
	row.Undecoded = row.Undecoded && kind == ""
	if err == nil {
		err = errors.Join(row.Limit(), d.limit(row))
	}
	if err != nil {
		row.Err = fmt.Errorf("topic %s, partition %d, offset %d: %w", rec.Topic, rec.Partition, rec.Offset, err)
		row.Payload, row.Headers, row.Tags = nil, nil, nil
		for _, name := range []*string{&row.ID, &row.Type, &row.Group, &row.AggregateType, &row.AggregateID, &row.Tenant} {
			if len(*name) > adapters.MaxRowNameBytes {
				*name = strings.ToValidUTF8((*name)[:adapters.MaxRowNameBytes], "")
			}
		}
	}
	return row
}

// idField returns the id in the value; empty: there is none.
func (d *Decoding) idField(row *adapters.Row) string {
	if d.IDField == "" || row.Binary {
		return ""
	}
	switch v := gjson.GetBytes(row.Payload, d.IDField); v.Type {
	case gjson.String:
		return v.Str
	case gjson.Number:
		return v.Raw // as it is written: it may have more digits than a float
	default:
		return ""
	}
}

// limit checks the metadata.
func (d *Decoding) limit(row *adapters.Row) error {
	n := 0
	for k, v := range row.Headers {
		n += len(k) + len(v)
	}
	if n > adapters.MaxRowMetadataBytes || len(row.Headers) > adapters.MaxRowPairs {
		return fmt.Errorf("headers: %w: there are %d with %d bytes, the limits are %d and %d", adapters.ErrTooLarge, len(row.Headers), n, adapters.MaxRowPairs, adapters.MaxRowMetadataBytes)
	}
	return nil
}

// text is a key or header as text. What a database cannot store as text is written in base64.
func text(b []byte) string {
	if s := string(b); utf8.ValidString(s) && !strings.Contains(s, "\x00") {
		return s
	}
	return "base64:" + base64.StdEncoding.EncodeToString(b)
}

// payload decodes by the format. Of a value that is too large, and of a record without a value, the headers are decoded.
func (d *Decoding) payload(row *adapters.Row, rec *kgo.Record) error {
	var large error
	row.Payload = rec.Value
	if n := int64(len(rec.Value)); n > d.MaxRow {
		row.Payload, large = nil, adapters.PayloadTooLarge(n, d.MaxRow, "use outrider seek")
	}
	if rec.Value == nil { // nil means that there is an error
		row.Payload, row.Headers[HeaderTombstone] = []byte{}, "true"
	}
	var err error
	switch d.Format {
	case format.Watermill:
		err = fromWatermill(row)
	case format.CloudEvents:
		err = fromCloudEvent(row)
	case format.Debezium:
		row.ID = cmp.Or(pop(row.Headers, format.RawID), row.ID)
		row.Payload = fromConnect(row.Payload)
	default:
		row.ID, row.Type = cmp.Or(pop(row.Headers, format.RawID), row.ID), cmp.Or(pop(row.Headers, format.RawType), row.Type)
	}
	if rec.Value == nil && errors.Is(err, errNoID) { // a producer that deletes a key writes no more than the key
		err = nil
	}
	row.Undecoded = err != nil
	row.Binary = row.Binary || !format.ValidJSON(row.Payload)
	return cmp.Or(large, err)
}

// fromConnect returns the payload in a value of Kafka Connect's JsonConverter: without the schema, and as JSON where it is JSON in a string.
func fromConnect(value []byte) []byte {
	if !gjson.ValidBytes(value) {
		return value
	}
	v, whole := gjson.ParseBytes(value), true
	if members := v.Map(); v.IsObject() && len(members) == 2 && members["schema"].Exists() && members["payload"].Exists() {
		v, whole = members["payload"], false
	}
	if v.Type == gjson.String && gjson.Valid(v.Str) && (gjson.Parse(v.Str).IsObject() || gjson.Parse(v.Str).IsArray()) {
		return []byte(v.Str)
	}
	if whole {
		return value
	}
	return []byte(v.Raw)
}

func pop(headers map[string]string, key string) string {
	v := headers[key]
	delete(headers, key)
	return v
}

var errNoID = errors.New("it has no id")

// fromWatermill reads what watermill-kafka's marshaler writes: the id in a header, and the metadata as headers.
func fromWatermill(row *adapters.Row) error {
	id := pop(row.Headers, kafka.UUIDHeaderKey)
	if id == "" {
		return fmt.Errorf("%w: header %s is missing", errNoID, kafka.UUIDHeaderKey)
	}
	row.ID = id
	m := row.Headers
	row.Type, row.Group = cmp.Or(m[outbox.MetaType], row.Type), cmp.Or(m[outbox.MetaGroup], row.Group)
	row.AggregateType, row.AggregateID, row.Tenant = m[outbox.MetaAggregateType], m[outbox.MetaAggregateID], m[outbox.MetaTenant]
	row.OccurredAt, _ = time.Parse(time.RFC3339Nano, m[outbox.MetaOccurredAt])
	if tags := m[outbox.MetaTags]; tags != "" && json.Unmarshal([]byte(tags), &row.Tags) != nil {
		row.Tags = nil
	}
	row.Binary = m[outbox.MetaEncoding] == outbox.EncodingBytes
	return nil
}

// The header of the content type in binary mode, and the content type of structured mode.
const (
	contentType = "content-type"
	structured  = "application/cloudevents"
)

func fromCloudEvent(row *adapters.Row) error {
	attribute := map[string]string{}
	if strings.HasPrefix(row.Headers[contentType], structured) && row.Headers[HeaderTombstone] == "" {
		event := gjson.ParseBytes(row.Payload)
		if !gjson.ValidBytes(row.Payload) || !event.IsObject() {
			return errors.New("not a CloudEvent: the value is no JSON object")
		}
		delete(row.Headers, contentType)
		row.Payload = []byte{}
		var data gjson.Result
		var err error
		event.ForEach(func(k, v gjson.Result) bool {
			switch k.Str {
			case "data":
				data, row.Payload = v, []byte(v.Raw)
			case "data_base64":
				row.Payload, err = base64.StdEncoding.DecodeString(v.Str)
				row.Binary = true
			default:
				attribute[k.Str] = v.String()
			}
			return err == nil
		})
		if err != nil {
			return fmt.Errorf("not a CloudEvent: data_base64: %w", err)
		}
		if media := attribute["datacontenttype"]; data.Type == gjson.String && media != "" && !strings.Contains(media, "json") {
			row.Payload, row.Binary = []byte(data.Str), true // a text
		}
	} else {
		for k, v := range row.Headers {
			if name, ok := strings.CutPrefix(k, "ce_"); ok {
				attribute[name] = v
				delete(row.Headers, k)
			}
		}
	}
	if attribute["id"] == "" {
		return fmt.Errorf("not a CloudEvent: %w", errNoID)
	}
	return takeAttributes(row, attribute)
}

// takeAttributes makes the attributes of a CloudEvent fields of the row. Extensions become headers, as those of the application were.
func takeAttributes(row *adapters.Row, attribute map[string]string) (err error) {
	for name, v := range attribute {
		switch name {
		case "id":
			row.ID = v
		case "type":
			row.Type = v
		case "time":
			if row.OccurredAt, err = time.Parse(time.RFC3339Nano, v); err != nil {
				return fmt.Errorf("not a CloudEvent: time: %s is not a time", strconv.Quote(v))
			}
		case format.AttrPartitionKey:
			row.Group = v
		case "subject":
			row.AggregateID = v
		case format.AttrAggregateType:
			row.AggregateType = v
		case format.AttrTenant:
			row.Tenant = v
		case format.AttrTags:
			if json.Unmarshal([]byte(v), &row.Tags) != nil {
				row.Tags = nil
			}
		case "specversion", "datacontenttype", format.AttrHeaders, format.AttrPosition, format.AttrLane:
		default:
			row.Headers[name] = v
		}
	}
	if rest := attribute[format.AttrHeaders]; rest != "" {
		more := map[string]string{}
		if json.Unmarshal([]byte(rest), &more) == nil {
			maps.Copy(row.Headers, more)
		}
	}
	return nil
}
