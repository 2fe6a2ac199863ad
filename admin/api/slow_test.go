package api_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// 300 clients that never finish their requests, and a body beyond the bound, cost no delivery; when they give up, the API
// answers as before.
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
	for _, c := range slow {
		must(t, c.Close())
	}
	slow = nil
	s.want("read", "GET", "/routes", "", `"route":"orders"`)
	s.refused(http.StatusRequestEntityTooLarge, "operate", "POST", "/parked/redrive", `{"error": "`+strings.Repeat("x", 2<<20)+`"}`)
	s.want("read", "GET", "/routes", "", `"route":"orders"`)
}
