package webhook

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/outbox/format"
)

// connections is how many requests the benchmarks have in flight.
const connections = 64

// spread runs f from as many goroutines until b has had enough.
func spread(b *testing.B, f func(n int64)) {
	b.Helper()
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	for range connections {
		wg.Go(func() {
			for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
				f(n)
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "req/s")
}

func sink(b *testing.B) string {
	b.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
	}))
	b.Cleanup(s.Close)
	return s.URL
}

func benchMessage(n int64) *message.Message {
	id := fmt.Sprintf("01JD3Z0000000000%010d", n)
	return adapters.NewMessage(&adapters.Row{
		ID: id, Type: "order.created", Group: strconv.FormatInt(n%1000, 10), Position: n,
		Payload: fmt.Appendf(nil, `{"id":%q,"pad":"%0200d"}`, id, 0),
	}, "orders/07")
}

// BenchmarkDeliver is what one webhook costs, receiver included.
func BenchmarkDeliver(b *testing.B) {
	for _, f := range []format.Format{format.Raw, format.CloudEvents, CloudEventsBinary} {
		b.Run(string(f), func(b *testing.B) {
			d, err := New(Config{URL: sink(b) + "/hooks", Secrets: []string{secret}, Format: f, AllowPrivate: true})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = d.Close() })
			spread(b, func(n int64) {
				msg := benchMessage(n)
				address, _ := d.Address(msg)
				if errs := d.Deliver(b.Context(), address, []*message.Message{msg}); errs != nil {
					b.Error(errs)
				}
			})
		})
	}
}

// BenchmarkBareLoop is the floor: signed requests by a client of net/http.
func BenchmarkBareLoop(b *testing.B) {
	url := sink(b) + "/hooks"
	s, err := newSigner([]string{secret})
	if err != nil {
		b.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: connections}}
	b.Cleanup(client.CloseIdleConnections)
	spread(b, func(n int64) {
		msg := benchMessage(n)
		req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, url, bytes.NewReader(msg.Payload))
		if err != nil {
			b.Error(err)
			return
		}
		timestamp := strconv.FormatInt(time.Now().Unix(), 10)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set(headerID, msg.UUID)
		req.Header.Set(headerTimestamp, timestamp)
		req.Header.Set(headerSignature, s.signature(msg.UUID, timestamp, msg.Payload))
		resp, err := client.Do(req)
		if err != nil {
			b.Error(err)
			return
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	})
}

func BenchmarkSignature(b *testing.B) {
	body := benchMessage(1).Payload
	for name, secrets := range map[string][]string{"v1": {secret}, "v1 twice": {secret, secret}, "v1a": {private}} {
		b.Run(name, func(b *testing.B) {
			s, err := newSigner(secrets)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				s.signature("01JD3Z00000000000000000001", "1614265330", body)
			}
		})
	}
}
