package adaptertest

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/outriderhq/outrider/adapters"
)

// pairs are n headers or tags with values of a length.
func pairs(n, length int) map[string]string {
	m := make(map[string]string, n)
	for i := range n {
		m[fmt.Sprintf("key-%d", i)] = strings.Repeat("v", length)
	}
	return m
}

// noise is data that cannot be compressed.
func noise(n int) []byte {
	data := make([]byte, n)
	src := rand.NewChaCha8([32]byte{1})
	_, _ = src.Read(data) // never fails
	return data
}

// jsonText is a JSON text of n bytes that compresses well.
func jsonText(n int) []byte {
	return append(append([]byte{'"'}, bytes.Repeat([]byte("x"), n-2)...), '"')
}

// testTooLarge reads rows beyond the limits among others: they come in their order,
// with what is wrong with them in place of what is too large.
func testTooLarge(t *testing.T, h SourceHarness) {
	with := func(n int, change func(*adapters.Row)) adapters.Row {
		r := event("g", n)
		change(&r)
		return r
	}
	h.Insert(t,
		with(0, func(r *adapters.Row) { r.Payload = jsonText(adapters.DefaultMaxRow) }),
		with(1, func(r *adapters.Row) { r.Payload = jsonText(adapters.DefaultMaxRow + 1) }),
		with(2, func(*adapters.Row) {}),
		with(3, func(r *adapters.Row) { r.Payload, r.Binary = noise(adapters.DefaultMaxRow+1), true }),
		with(4, func(r *adapters.Row) { r.Headers = pairs(adapters.MaxRowPairs+1, 1) }),
		with(5, func(r *adapters.Row) { r.Headers = pairs(2, adapters.MaxRowMetadataBytes/2) }),
		with(6, func(r *adapters.Row) { r.Headers = pairs(adapters.MaxRowPairs-20, 100) }),
		with(7, func(r *adapters.Row) { r.Tenant = strings.Repeat("é", adapters.MaxRowNameBytes) }),
		with(8, func(r *adapters.Row) { r.Tags = pairs(2, adapters.MaxRowMetadataBytes) }),
		with(9, func(*adapters.Row) {}),
	)
	p := beginning(t, h.Source)
	rows := p.drain(t, h.Source, 3)
	if len(rows) != 10 {
		t.Fatalf("got %d rows, want 10", len(rows))
	}
	fits := map[int]bool{0: true, 2: true, 6: true, 9: true}
	inHeaders := map[int]bool{4: true, 5: true, 8: true} // where the group may be, too
	byID := map[string]*adapters.Row{}
	for _, row := range rows {
		byID[row.ID] = row
	}
	for i := range rows {
		row := byID[event("g", i).ID]
		if row == nil {
			t.Fatalf("row %d did not come", i)
		}
		if row.Group != "g" && !inHeaders[i] {
			t.Errorf("row %d is of group %q", i, row.Group)
		}
		if fits[i] != (row.Err == nil) || row.Err != nil && !errors.Is(row.Err, adapters.ErrTooLarge) {
			t.Errorf("row %d: the error is %v", i, row.Err)
		}
		if size := row.Size(); size > adapters.DefaultMaxRow+200 || !fits[i] && size > 8<<10 {
			t.Errorf("row %d holds %d bytes", i, size)
		}
	}
	whole, many := byID[event("g", 0).ID], byID[event("g", 6).ID]
	if len(whole.Payload) != adapters.DefaultMaxRow || len(many.Headers) != adapters.MaxRowPairs-20 {
		t.Errorf("what is just within the limits has %d bytes of payload, %d headers", len(whole.Payload), len(many.Headers))
	}
}
