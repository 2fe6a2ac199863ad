package logtable

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/reader"
	"github.com/outriderhq/outrider/adapters/postgres/internal/wire"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/outbox/format"
)

// head has the columns that decide where a row belongs.
type head struct {
	headers map[string]string
	broken  error // the headers cannot be decoded
	group   string
	slot    int
}

// metaKeys are the headers of Outrider's own that a role is looked for in: a
// client or a middleware of Outrider may have written them.
var metaKeys = [roles]string{
	roleType: outbox.MetaType, roleGroup: outbox.MetaGroup, roleAggregateType: outbox.MetaAggregateType,
	roleAggregateID: outbox.MetaAggregateID, roleTenant: outbox.MetaTenant,
}

// resultOf is where a role's column is in the result.
func resultOf(r role) int { return int(r) + reader.FetchPosition }

// head decodes a row's headers, group and slot.
func (m *mapping) head(d *wire.Decoder, values [][]byte) head {
	var h head
	h.headers, h.broken = looseMap(values[reader.FetchHeaders])
	if errors.Is(h.broken, adapters.ErrTooLarge) { // the row will be dead, in its group if that is known
		h.headers = m.named(values[reader.FetchHeaders])
	}
	h.group = m.attribute(d, roleGroup, values, h.headers)
	h.slot = adapters.SlotOf(h.group, string(values[reader.FetchID]))
	return h
}

// attribute finds a role's value: in its column, else in the headers, else it
// is the mapping's constant.
func (m *mapping) attribute(d *wire.Decoder, r role, values [][]byte, headers map[string]string) string {
	if text := values[resultOf(r)]; len(text) > 0 {
		if r == roleGroup || r == roleAggregateID {
			return d.Texts.Copy(text)
		}
		return d.Intern(text)
	}
	if m.constants[r] != "" {
		return m.constants[r]
	}
	if key := m.keys[r]; key != "" {
		if v, ok := headers[key]; ok {
			return v
		}
	}
	return headers[metaKeys[r]]
}

// row decodes the rest. Errors of decoding are in the row's Err.
func (m *mapping) row(d *wire.Decoder, h head, values [][]byte) *adapters.Row {
	row := d.Rows.Next(wire.Size(values))
	row.ID, row.Group, row.Slot, row.Headers = m.eventID(d, values), h.group, h.slot, h.headers
	if h.broken != nil {
		d.Fail(row, m.columns[roleHeaders], h.broken)
	}
	row.Type = m.attribute(d, roleType, values, h.headers)
	if row.Type == "" {
		row.Type = m.typ
	}
	row.AggregateType = m.attribute(d, roleAggregateType, values, h.headers)
	row.AggregateID = m.attribute(d, roleAggregateID, values, h.headers)
	row.Tenant = m.attribute(d, roleTenant, values, h.headers)
	m.content(d, row, values)
	m.extras(d, row, values)
	maps.DeleteFunc(row.Headers, func(key, _ string) bool { return strings.HasPrefix(key, outbox.HeaderPrefix) })
	if row.ID == "" {
		d.Fail(row, m.columns[roleID], errors.New("is empty, so that receivers cannot tell duplicates"))
	}
	if row.Type == "" {
		d.Fail(row, roleKeys[roleType], errors.New("is empty"))
	}
	d.Limit(row, row.Limit())
	return row
}

// eventID is the row's id: what its column has or, where rows have none, the table's name and the position.
func (m *mapping) eventID(d *wire.Decoder, values [][]byte) string {
	if m.preset == nil || !m.preset.Numbered {
		return d.Texts.Copy(values[reader.FetchID])
	}
	return m.table[len(m.table)-1] + ":" + string(values[reader.FetchID])
}

// content is the payload as it is stored. A json or jsonb column holds JSON; of
// text and bytes what is not valid JSON, or is marked as bytes, is bytes.
func (m *mapping) content(d *wire.Decoder, row *adapters.Row, values [][]byte) {
	payload, raw := values[reader.FetchPayload], values[reader.FetchPayloadBytes]
	if payload == nil {
		payload = raw
	}
	if stored := values[reader.FetchStored]; payload == nil && stored != nil {
		d.Fail(row, m.columns[rolePayload], d.TooLarge(stored, values[reader.FetchPosition]))
		return
	}
	if payload == nil && (m.preset == nil || !m.preset.NullPayload) {
		d.Fail(row, m.columns[rolePayload], errors.New("is null"))
		return
	}
	if payload != nil || !m.captured() {
		row.Payload = d.Payloads.Copy(payload)
	}
	row.Binary = row.Headers[outbox.MetaEncoding] == outbox.EncodingBytes ||
		(!m.json.Load() || payload == nil) && !format.ValidJSON(row.Payload)
}

// extras are tags and times.
func (m *mapping) extras(d *wire.Decoder, row *adapters.Row, values [][]byte) {
	tags := values[reader.FetchTags]
	if text, ok := row.Headers[outbox.MetaTags]; ok && tags == nil {
		tags = []byte(text)
	}
	var err error
	if m.array.Load() && values[reader.FetchTags] != nil {
		row.Tags, err = tagMap(tags)
	} else {
		row.Tags, err = looseMap(tags)
	}
	if err != nil {
		d.Fail(row, roleKeys[roleTags], err)
	}
	if row.OccurredAt, err = wire.TimeFromBinary(values[reader.FetchOccurredAt]); err != nil {
		d.Fail(row, m.columns[roleOccurredAt], err)
	}
	if text, ok := row.Headers[outbox.MetaOccurredAt]; ok && row.OccurredAt.IsZero() {
		if row.OccurredAt, err = time.Parse(time.RFC3339Nano, text); err != nil {
			d.Fail(row, "header "+outbox.MetaOccurredAt, err)
		}
	}
	d.Created(row, m.columns[roleCreatedAt], values[reader.FetchCreatedAt])
}

// tagMap decodes a JSON array of tags KEY=VALUE. What has no = is a key without a value. A key that comes again with
// another value is a map's only once; so such a tag is a key of its own, KEY=VALUE without a value, by which it can be
// matched all the same.
func tagMap(text []byte) (map[string]string, error) {
	if len(text) == 0 || string(text) == "[]" {
		return nil, nil
	}
	if string(text) == wire.TooLong {
		return nil, wire.CheckPairs(text)
	}
	var list []*string
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("not an array of texts: %w", err)
	}
	if len(list) > adapters.MaxRowPairs {
		return nil, fmt.Errorf("%w: %d tags, more than %d", adapters.ErrTooLarge, len(list), adapters.MaxRowPairs)
	}
	tags := make(map[string]string, len(list))
	for _, tag := range list {
		if tag == nil {
			continue
		}
		key, value, _ := strings.Cut(*tag, "=")
		if known, again := tags[key]; again && known != value {
			key, value = *tag, ""
		}
		tags[key] = value
	}
	return tags, nil
}

// named returns those of too many headers in which a role is looked for. Of headers
// that were not even read there are none.
func (m *mapping) named(text []byte) map[string]string {
	d := json.NewDecoder(bytes.NewReader(text))
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		return nil
	}
	found := map[string]string{}
	for d.More() {
		key, err := d.Token()
		var value any
		if err == nil {
			err = d.Decode(&value)
		}
		if err != nil {
			return found
		}
		name, _ := key.(string)
		if text, ok := value.(string); ok && (slices.Contains(m.keys[:], name) || slices.Contains(metaKeys[:], name)) {
			found[name] = text
		}
	}
	delete(found, "") // the key of roles that are not looked for
	return found
}

// looseMap decodes a JSON object. Values that are no strings become their JSON
// text, and null is left out: other systems' headers hold numbers and objects.
func looseMap(text []byte) (map[string]string, error) {
	if len(text) == 0 || string(text) == "{}" {
		return nil, nil
	}
	if err := wire.CheckPairs(text); err != nil {
		return nil, err
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(text, &raw); err != nil {
		return nil, fmt.Errorf("not a JSON object: %w", err)
	}
	if len(raw) == 0 {
		return nil, nil
	}
	decoded := make(map[string]string, len(raw))
	for k, v := range raw {
		switch {
		case bytes.Equal(v, []byte("null")):
		case v[0] == '"':
			var s string
			if err := json.Unmarshal(v, &s); err != nil {
				return nil, fmt.Errorf("key %q: %w", k, err)
			}
			decoded[k] = s
		default:
			decoded[k] = string(v)
		}
	}
	return decoded, nil
}
