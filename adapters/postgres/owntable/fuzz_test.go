package owntable

import (
	"encoding/binary"
	"testing"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/reader"
	"github.com/outriderhq/outrider/adapters/postgres/internal/wire"
	"github.com/outriderhq/outrider/outbox"
)

// FuzzRow decodes rows of any content: it must not panic, and what is beyond the
// limits must be an error of the row, not its content.
func FuzzRow(f *testing.F) {
	f.Add([]byte("id"), []byte("t"), []byte("g"), []byte(`{"k": "v"}`), []byte(`{"n": 1, "o": {"a": [null]}}`), []byte(`{"a": 1}`), int64(1), false)
	f.Add([]byte("\xff"), []byte(""), []byte(nil), []byte(`[]`), []byte(wire.TooLong), []byte(nil), int64(1<<62), true)
	f.Add([]byte("id"), []byte("t"), []byte("g"), []byte(`{"`), []byte(`{"a": null, "outrider_type": "x"}`), []byte("\x00"), int64(-1<<63), true)
	f.Fuzz(func(t *testing.T, id, typ, group, tags, headers, payload []byte, at int64, stored bool) {
		v := make([][]byte, reader.FetchStored+1)
		v[reader.FetchPosition] = binary.BigEndian.AppendUint64(nil, 7)
		v[reader.FetchID], v[reader.FetchType], v[reader.FetchGroup], v[reader.FetchTags], v[reader.FetchHeaders], v[reader.FetchPayload] = id, typ, group, tags, headers, payload
		v[reader.FetchOccurredAt] = binary.BigEndian.AppendUint64(nil, uint64(at))
		if stored {
			v[reader.FetchStored] = v[reader.FetchOccurredAt]
		}
		d := &wire.Decoder{Table: "t", MaxRow: adapters.DefaultMaxRow}
		row := decodeRow(d, v)
		if max(len(row.ID), len(row.Type), len(row.Group)) > adapters.MaxRowNameBytes || len(row.Headers) > adapters.MaxRowPairs {
			t.Errorf("a row is beyond the limits: %d %d %d %d", len(row.ID), len(row.Type), len(row.Group), len(row.Headers))
		}
		if text := row.Metadata("r/00")[outbox.MetaBroken]; (text == "") != (row.Err == nil) || len(text) > 1<<10 {
			t.Errorf("the row's error is %v, its message's %q", row.Err, text)
		}
	})
}
