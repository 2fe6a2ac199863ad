package owntable

import (
	"encoding/binary"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pgtest"
	"github.com/outriderhq/outrider/adapters/postgres/internal/reader"
	"github.com/outriderhq/outrider/adapters/postgres/internal/wire"
)

func TestBoundsThatDoNotCoverTheCursorAreRefused(t *testing.T) {
	t.Parallel()
	src, err := New(t.Context(), Config{URL: "postgres://127.0.0.1:1/none"})
	pgtest.Must(t, err)
	t.Cleanup(func() { pgtest.Must(t, src.Close()) })
	from := adapters.Cursor{Position: 5, Snapshot: "10:20:10,14"}
	window := adapters.Cursor{Position: 5, Snapshot: "10:20:10,14", Window: "14:25:14,21", Paged: 2}
	for name, read := range map[string]adapters.Read{
		"slot":       {Slot: 16, From: from},
		"snapshot":   {From: adapters.Cursor{Position: 1}},
		"position":   {From: from, Until: &adapters.Cursor{Position: 4, Snapshot: "10:20:10,14"}},
		"older xmax": {From: from, Until: &adapters.Cursor{Position: 5, Snapshot: "10:19:10,14"}},
		"older list": {From: from, Until: &adapters.Cursor{Position: 5, Snapshot: "10:20:10,12,14"}},
		"in window":  {From: window, Until: &adapters.Cursor{Position: 5, Snapshot: "14:22:14"}},
		"windowed":   {From: from, Until: &window},
	} {
		if _, err := src.Fetch(t.Context(), []adapters.Read{read}, nil); err == nil || !strings.Contains(err.Error(), "slot") {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
	for name, read := range map[string]adapters.Read{
		"equal":     {From: from, Until: &from},
		"newer":     {From: from, Until: &adapters.Cursor{Position: 6, Snapshot: "14:22:14,21"}},
		"in window": {From: window, Until: &adapters.Cursor{Position: 5, Snapshot: "14:26:14"}},
	} {
		if _, err := reader.PlanRead(&read); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// binaryRow is a row as the server sends it.
func binaryRow(set map[int]string) [][]byte {
	v := make([][]byte, reader.FetchStored+1)
	at := binary.BigEndian.AppendUint64(nil, uint64(time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC).UnixMicro()-wire.PostgresEpoch))
	v[reader.FetchID], v[reader.FetchType], v[reader.FetchPayload], v[reader.FetchCreatedAt] = []byte("id-1"), []byte("order.created"), []byte(`{"a":1}`), at
	for column, value := range set {
		v[column] = []byte(value)
	}
	return v
}

func TestDecode(t *testing.T) {
	t.Parallel()
	d := wire.Decoder{Table: "app.outbox"}
	values := binaryRow(map[int]string{reader.FetchGroup: "g", reader.FetchTenant: "acme", reader.FetchTags: `{"k":"v"}`, reader.FetchHeaders: `{}`})
	row := decodeRow(&d, values)
	for _, v := range values { // the network buffer is used again
		clear(v)
	}
	if row.ID != "id-1" || row.Type != "order.created" || row.Group != "g" || row.Tenant != "acme" || row.AggregateID != "" ||
		string(row.Payload) != `{"a":1}` || row.Binary || row.Tags["k"] != "v" || row.Headers != nil || row.Err != nil ||
		!row.OccurredAt.IsZero() || row.CreatedAt != time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC) {
		t.Errorf("decoded %+v", row)
	}
	row = decodeRow(&d, binaryRow(map[int]string{reader.FetchHeaders: `{"n": 1}`, reader.FetchTags: `[]`, reader.FetchOccurredAt: "\x7f\xff\xff\xff\xff\xff\xff\xff"}))
	pgtest.WantError(t, row.Err, "app.outbox", "row id-1", "column headers", "column tags", "column occurred_at", "JSON object of strings")
	values = binaryRow(nil)
	values[reader.FetchPayload] = nil
	pgtest.WantError(t, decodeRow(&d, values).Err, "payload")
	pgtest.WantError(t, decodeRow(&d, binaryRow(map[int]string{reader.FetchHeaders: `{"n": null}`})).Err, "headers")
}

// BenchmarkDecode is the cost of a row once it is in the network buffer.
func BenchmarkDecode(b *testing.B) {
	var d wire.Decoder
	values := binaryRow(map[int]string{reader.FetchGroup: "order-4711", reader.FetchPayload: strings.Repeat("x", 300)})
	b.ReportAllocs()
	for b.Loop() {
		decodeRow(&d, values)
	}
}

// BenchmarkFetch reads 100,000 rows of 300 bytes, 5,000 at a time, server and
// network included.
func BenchmarkFetch(b *testing.B) {
	e := newSourceEnv(b)
	e.Exec(`INSERT INTO outrider_outbox (type, message_group, payload)
		SELECT 'order.created', 'g' || i % 1000, json_build_object('a', repeat('x', 288)) FROM generate_series(1, 100000) i`)
	start := e.Lanes(e.src, adapters.StartBeginning, 5000/adapters.Slots)
	rows, before := 0, cpuTime(b)
	for b.Loop() {
		l := *start
		for drained := false; !drained; {
			results, err := l.Src.Fetch(e.Ctx, l.Reads(nil), func(int, *adapters.Row) bool { rows++; return true })
			pgtest.Must(b, err)
			drained = true
			for i, r := range results {
				l.From[i], drained = r.Next, drained && r.Drained
			}
		}
	}
	b.ReportMetric(float64(rows)/b.Elapsed().Seconds(), "rows/s")
	b.ReportMetric(float64(rows)/(cpuTime(b)-before).Seconds(), "rows/s/core")
}

// cpuTime is what this process has used, the server not included.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	pgtest.Must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkIdle is the cost of a poll that finds nothing.
func BenchmarkIdle(b *testing.B) {
	e := newSourceEnv(b)
	l := e.Lanes(e.src, adapters.StartEnd, 5000/adapters.Slots)
	b.ReportAllocs()
	for b.Loop() {
		_, _, err := l.Next(e.Ctx, nil)
		pgtest.Must(b, err)
	}
}
