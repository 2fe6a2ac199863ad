package api_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
)

// 300 clients that never finish their requests, and a body beyond the bound, cost no delivery, and the API answers others meanwhile.
func TestG6_SlowClientsOfTheAPIHarmNoDelivery(t *testing.T) {
	t.Parallel()
	s := onSQLite(t)
	var slow []net.Conn
	defer func() {
		for _, c := range slow {
			_ = c.Close()
		}
	}()
	for i := range 300 {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.relay.AdminAddress())
		must(t, err)
		slow = append(slow, c)
		request := "GET /api/v1/routes HTTP/1.1\r\nHost: 127.0.0.1\r\n" // and no more
		if i%2 == 0 {
			request = "POST /api/v1/reload HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer " + tokens["admin"] +
				"\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
		}
		_, err = io.WriteString(c, request)
		must(t, err)
	}
	const messages = 200
	for i := range messages {
		s.publish(fmt.Sprint("m-", i), `{"customer": "kind"}`)
	}
	s.until("all are delivered beside the slow clients", func() bool { return s.took.Load() == messages })
	s.want("read", "GET", "/routes", "", `"route":"orders"`)
	for _, c := range slow {
		must(t, c.Close())
	}
	slow = nil
	s.want("read", "GET", "/routes", "", `"route":"orders"`)
	s.refused(http.StatusRequestEntityTooLarge, "operate", "POST", "/parked/redrive", `{"error": "`+strings.Repeat("x", 2<<20)+`"}`)
	s.want("read", "GET", "/routes", "", `"route":"orders"`)
}

// 300 clients that ask for the live tail again and again and read no answer hold no more than bounded memory, and cost no delivery.
//
//nolint:paralleltest // it measures the memory of the process
func TestG6_G7_ClientsThatReadNothingHoldLittle(t *testing.T) {
	s := onPostgres(t)
	const messages = 40
	for i := range messages {
		s.publish(fmt.Sprint("m-", i), `{"customer": "kind", "text": "`+strings.Repeat("x", 10_000)+`"}`)
	}
	s.until("all are delivered", func() bool { return s.took.Load() == messages })
	before := heap()
	var slow []net.Conn
	defer func() {
		for _, c := range slow {
			_ = c.Close()
		}
	}()
	asks := strings.Repeat("GET /tail?source=app HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer "+tokens["admin"]+"\r\n\r\n", 100)
	for range 300 {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.relay.AdminAddress())
		must(t, err)
		slow = append(slow, c)
		_, err = io.WriteString(c, asks)
		must(t, err)
	}
	for i := range messages {
		s.publish(fmt.Sprint("n-", i), `{"customer": "kind"}`)
	}
	s.until("all are delivered beside the clients", func() bool { return s.took.Load() == 2*messages })
	s.want("read", "GET", "/routes", "", `"route":"orders"`)
	const most = 64 << 20
	s.until("what they hold is bounded", func() bool { return heap() < before+most })
	for _, c := range slow {
		must(t, c.Close())
	}
	slow = nil
	s.want("read", "GET", "/routes", "", `"route":"orders"`)
	for i := range 20 { // each is read no further than the bound
		s.refused(http.StatusRequestEntityTooLarge, "admin", "POST", "/operations", `{"kind": "redrive", "error": "`+strings.Repeat("x", 4<<20)+`"}`)
		if used := heap(); used > before+most {
			t.Errorf("after %d large bodies: %d MiB more", i+1, (used-before)>>20)
		}
	}
	s.want("read", "GET", "/routes", "", `"route":"orders"`)
}

// heap is what is in use after a collection.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
